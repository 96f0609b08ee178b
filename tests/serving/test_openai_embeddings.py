"""OpenAI's embeddings API: the vectors of the embedder with length 1, and errors in OpenAI's shape."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest

from pipelines.inference.embedding import Embedder
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from tests.support import exported, raw_http, served, tiny

TEXTS = ["私は犬が好き。", "", "映画の公開日が決定、監督が語る" * 20]


class Place(NamedTuple):
    address: str
    folder: Path

    def ask(self, path: str, body: Any = None) -> tuple[int, Any]:
        """Status and JSON of the answer: to a POST of a body, JSON or bytes, or to a GET."""
        get = body is None
        answer = raw_http.get(self.address, path) if get else raw_http.post(self.address, path, raw_http.encoded(body))
        return answer.status, answer.json()


@pytest.fixture(scope="module", params=["model", "onnx"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """A service with an encoder, opened by torch or by ONNX Runtime, and a classifier."""
    at = tmp_path_factory.mktemp("models")
    folder, models = exported.encoder(tmp_path_factory) / request.param, Catalogue()
    models.serve({"mini": Source("mini", folder=folder), "film": Source("film", folder=tiny.classifier(at / "film"))})
    with served.serving(models) as address:
        yield Place(address, folder)


def test_vectors_are_the_embedders(place: Place) -> None:
    answers = Embedder.load(place.folder, normalize=True).predict(pa.table({"text": TEXTS})).to_pylist()
    expected = [np.array(answer["vector"], np.float32) for answer in answers]
    for encoding in ("float", "base64", None):
        more = {"encoding_format": encoding} if encoding else {}
        status, answer = place.ask("/v1/embeddings", {"model": "mini", "input": TEXTS, **more})
        assert (status, answer["object"], answer["model"]) == (200, "list", "mini")
        assert [(item["object"], item["index"]) for item in answer["data"]] == [("embedding", i) for i in range(3)]
        tokens = sum(each["tokens"] for each in answers)
        assert answer["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}
        for item, vector in zip(answer["data"], expected, strict=True):
            written = item["embedding"]
            if encoding == "base64":  # as OpenAI's client reads it
                received = np.frombuffer(base64.b64decode(written), dtype="float32")
            else:
                received = np.array(written, np.float32)
            assert np.array_equal(received, vector)
            assert np.linalg.norm(received) == pytest.approx(1, abs=1e-6)


def test_a_single_text(place: Place) -> None:
    body = {"model": "mini", "input": TEXTS[0], "user": "someone", "encoding_format": None}
    (one,) = place.ask("/v1/embeddings", body)[1]["data"]
    assert one == place.ask("/v1/embeddings", {"model": "mini", "input": TEXTS})[1]["data"][0]


def test_the_models_are_those_with_embeddings(place: Place) -> None:
    described = {"id": "mini", "object": "model", "created": 0, "owned_by": "bertline"}
    assert place.ask("/v1/models") == (200, {"object": "list", "data": [described]})
    assert place.ask("/v1/models/mini") == (200, described)
    status, answer = place.ask("/v1/models/film")
    assert (status, answer["error"]["code"]) == (404, "model_not_found")


def test_the_open_inference_protocol_has_the_vectors_as_a_tensor(place: Place) -> None:
    """An encoder's tensors: the vectors of the embedder bit by bit, as JSON and as bytes, and the guesses as JSON."""
    predicted = Embedder.load(place.folder).predict(pa.table({"text": TEXTS})).to_pylist()
    vectors = np.array([row["vector"] for row in predicted], np.float32)
    about = place.ask("/v2/models/mini")[1]
    assert about["inputs"] == [{"name": "text", "datatype": "BYTES", "shape": [-1]}]
    assert about["outputs"] == [
        {"name": "vector", "datatype": "FP32", "shape": [-1, -1]},
        {"name": "tokens", "datatype": "INT32", "shape": [-1]},
    ]
    tensor = {"name": "text", "shape": [3], "datatype": "BYTES", "data": TEXTS}
    vector, tokens = place.ask("/v2/models/mini/infer", {"inputs": [tensor]})[1]["outputs"]
    assert (vector["shape"], vector["datatype"]) == (list(vectors.shape), "FP32")
    assert np.array_equal(np.array(vector["data"], np.float32), vectors.ravel())
    assert tokens["data"] == [row["tokens"] for row in predicted]
    request = {"inputs": [tensor], "outputs": [{"name": "vector", "parameters": {"binary_data": True}}]}
    answer = raw_http.post(place.address, "/v2/models/mini/infer", raw_http.encoded(request))
    data = answer.body[int(answer.headers["inference-header-content-length"]) :]
    assert np.array_equal(np.frombuffer(data, "<f4").reshape(vectors.shape), vectors)
    masked = tensor | {"shape": [1], "data": ["私は[MASK]が好き。"]}
    (guesses,) = place.ask("/v2/models/mini.fill_mask/infer", {"inputs": [masked]})[1]["outputs"]
    (row,) = place.ask("/predict/mini.fill_mask", {"rows": [{"text": masked["data"][0]}]})[1]["predictions"]
    assert (guesses["datatype"], guesses["shape"]) == ("BYTES", [1])
    assert json.loads(guesses["data"][0]) == row["guesses"]


REFUSED = [
    ({"model": "mini", "input": [1, 2]}, "input: token ids are not read"),
    ({"model": "mini", "input": [[1, 2], [3]]}, "input: token ids are not read"),
    ({"model": "mini", "input": []}, "input: a text, or a list of one or more texts, is expected"),
    ({"model": "mini", "input": None}, "input: a text, or a list of one or more texts, is expected"),
    ({"model": "mini", "input": ["a", {}]}, "input: a list of texts is expected"),
    ({"model": "mini", "input": ["a"] * 257}, "257 rows; a request takes at most 256"),
    ({"model": "mini", "input": "a", "dimensions": 8}, "dimensions: vectors are not shortened; leave it out"),
    ({"model": "mini", "input": "a", "encoding_format": "hex"}, "encoding_format: input should be 'float' or 'base64'"),
    ({"model": "mini", "input": "a", "modle": 1}, "no key 'modle' (did you mean 'model'?); there are: dimensions,"),
    ({"model": 1, "input": "a"}, "model: input should be a valid string"),
    ({"input": "a"}, "model: field required"),
    (b"{", "the body: invalid JSON"),
    (b'{"model": "mini", "input": "\\ud800"}', "the body: invalid JSON"),
]


@pytest.mark.parametrize(("body", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(body: Any, sentence: str, place: Place) -> None:
    status, answer = place.ask("/v1/embeddings", body)
    assert status == 422
    assert answer["error"].pop("message").startswith(sentence)
    assert answer == {"error": {"type": "invalid_request_error", "param": None, "code": None}}


def test_a_model_without_embeddings_is_not_found(place: Place) -> None:
    for name in ("film", "mini.fill_mask", "nothing"):
        status, answer = place.ask("/v1/embeddings", {"model": name, "input": "a"})
        assert (status, answer["error"]["type"], answer["error"]["code"]) == (404, "not_found_error", "model_not_found")
        assert answer["error"]["message"].endswith("there are: mini")
