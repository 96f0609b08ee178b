"""Hugging Face's own client gets what the predictor answers, for every kind of model."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from huggingface_hub import InferenceClient
from huggingface_hub.errors import HfHubHTTPError
from transformers import pipeline

from pipelines.core import schema
from pipelines.core.errors import InputError, UsageError
from pipelines.inference import runtimes
from pipelines.inference.embedding import Embedder, unit
from pipelines.inference.fill_mask import MaskFiller
from pipelines.inference.predictor import Predictor
from pipelines.serving import model_sources
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from tests.support import compressed, kinds, raw_http, served, tiny

pytestmark = pytest.mark.slow
KINDS = tuple(schema.PREDICTIONS)


class Place(NamedTuple):
    address: str
    folders: dict[str, Path]  # by the name in the service

    def client(self, name: str) -> InferenceClient:
        return InferenceClient(model=f"{self.address}/hf/{name}")

    def expected(self, kind: str) -> list[dict[str, Any]]:
        """The predictor's answers for the rows of a kind."""
        predictor = Predictor.load(self.folders[kind])
        predictor.runtime.batching = runtimes.ALONE
        return predictor.predict(kinds.rows(kind)).to_pylist()

    def post(self, name: str, body: Any) -> tuple[int, Any]:
        """Status and JSON of the answer to a body: JSON, or bytes as they are."""
        answer = raw_http.post(self.address, f"/hf/{name}", raw_http.encoded(body))
        return answer.status, answer.json()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    at = tmp_path_factory.mktemp("models")
    folders = {kind: compressed.teacher("bert", kind, at / kind) for kind in KINDS}
    folders |= {"encoder": tiny.encoder(at / "encoder"), "states": tiny.of_family("bilstm", at / "states")}
    models = Catalogue()
    models.serve({name: Source(name, folder=folder) for name, folder in folders.items()})
    for model in models:
        model.predictor.runtime.batching = runtimes.ALONE  # so that bits are the same as in other batches
    with served.serving(models) as address, pytest.MonkeyPatch.context() as patch:
        patch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)  # it forbids loopback too
        yield Place(address, folders)


@pytest.mark.parametrize("kind", ["single", "pair"])
def test_labels(kind: str, place: Place) -> None:
    rows, expected = kinds.rows(kind).to_pylist(), place.expected(kind)
    inputs = [{name: row[name] for name in schema.INPUTS[kind]} for row in rows]
    status, answers = place.post(kind, {"inputs": inputs})
    assert (status, len(answers)) == (200, 24)
    for answer, row in zip(answers, expected, strict=True):
        scores = dict(zip(kinds.TASKS[kind].labels, row["scores"], strict=True))
        assert {pair["label"]: pair["score"] for pair in answer} == scores
        assert [pair["score"] for pair in answer] == sorted(scores.values(), reverse=True)
        assert answer[0]["label"] == row["label"]
    peer = pipeline("text-classification", str(place.folders[kind]), top_k=None)
    for sent, answer in zip(inputs, answers, strict=True):
        theirs = peer(sent)
        assert [pair["label"] for pair in answer] == [pair["label"] for pair in theirs]
        assert [pair["score"] for pair in answer] == pytest.approx([pair["score"] for pair in theirs], abs=1e-5)


def test_the_client_classifies(place: Place) -> None:
    text, row = kinds.rows("single")["text"][5].as_py(), place.expected("single")[5]
    best, second = place.client("single").text_classification(text, top_k=2, function_to_apply="softmax")
    assert (best.label, best.score) == (row["label"], row["score"])
    assert best.score >= second.score
    assert len(place.client("single").text_classification(text)) == 3


def test_a_number(place: Place) -> None:
    rows, expected = kinds.rows("regression").to_pylist(), place.expected("regression")
    pairs = [{"text": row["text"], "text_pair": row["text_pair"]} for row in rows]
    _, answers = place.post("regression", {"inputs": pairs})
    assert answers == [[{"label": "value", "score": row["value"]}] for row in expected]
    (alone,) = place.client("regression").text_classification("犬")
    peer = pipeline("text-classification", str(place.folders["regression"]))("犬")[0]
    assert (alone.label, alone.score) == (peer["label"], pytest.approx(peer["score"], abs=1e-5))


def test_entities(place: Place) -> None:
    texts, expected = kinds.rows("tagging")["text"].to_pylist(), place.expected("tagging")
    _, answers = place.post("tagging", {"inputs": texts})
    assert sum(map(len, answers)) > 0
    for text, answer, row in zip(texts, answers, expected, strict=True):
        spans = [{"start": e["start"], "end": e["end"], "label": e["entity_group"]} for e in answer]
        assert spans == row["entities"]
        assert [e["score"] for e in answer] == row["entity_scores"]
        assert all(e["word"] == text[e["start"] : e["end"]] for e in answer)
    number = max(range(24), key=lambda i: len(answers[i]))
    client = place.client("tagging")
    assert [dict(e) | {"entity": None} for e in client.token_classification(texts[number])] == [
        e | {"entity": None} for e in answers[number]
    ]
    labels = [e["entity_group"] for e in answers[number]]
    others = client.token_classification(texts[number], ignore_labels=[labels[0]], aggregation_strategy="first")
    assert [e.entity_group for e in others] == [label for label in labels if label != labels[0]]


def test_answers(place: Place) -> None:
    rows, expected = kinds.rows("span").to_pylist(), place.expected("span")
    inputs = [{"question": row["question"], "context": row["context"]} for row in rows]
    _, answers = place.post("span", {"inputs": inputs, "parameters": {"top_k": 1}})
    for answer, row in zip(answers, expected, strict=True):
        assert (answer["answer"], answer["start"], answer["score"]) == (row["answer"], row["start"], row["score"])
        assert answer["end"] == row["start"] + len(row["answer"])
    one = place.client("span").question_answering(**inputs[3], top_k=1, handle_impossible_answer=False)
    assert dict(one) == answers[3]


def test_choices(place: Place) -> None:
    rows, expected = kinds.rows("choice").to_pylist(), place.expected("choice")
    for row, prediction in zip(rows[:4], expected, strict=False):
        answers = place.client("choice").zero_shot_classification(row["text"], row["choices"])
        assert {pair.label: pair.score for pair in answers} == dict(
            zip(row["choices"], prediction["scores"], strict=True)
        )
        assert answers[0].score == max(prediction["scores"])


def test_vectors(place: Place) -> None:
    texts = kinds.rows("single")["text"].to_pylist()
    for name in ("encoder", "states"):
        expected = Embedder.load(place.folders[name]).predict(pa.table({"text": texts})).column("vector").to_pylist()
        answers = place.client(name).feature_extraction(texts)
        assert np.array_equal(answers, np.array(expected, np.float32))
        one = place.client(name).feature_extraction(texts[1], normalize=True, truncate=True)
        assert np.array_equal(one, unit(expected[1])[None])


def test_guesses(place: Place) -> None:
    text, two = "私は[MASK]が好き。", "[MASK]は犬が[MASK]。"
    filler = MaskFiller.load(place.folders["encoder"])
    expected = [row["guesses"] for row in filler.predict(pa.table({"text": [text, two]})).to_pylist()]
    answers = place.client("encoder").fill_mask(text, top_k=3)
    assert [(g.token, g.token_str, g.score) for g in answers] == [
        (g["id"], g["piece"], g["score"]) for g in expected[0][0][:3]
    ]
    assert answers[0].sequence == text.replace("[MASK]", expected[0][0][0]["piece"].removeprefix("##"))
    _, both = place.post("encoder.fill_mask", {"inputs": [text, two]})
    assert [guess["score"] for guess in both[0]] == [guess["score"] for guess in expected[0][0][:5]]
    assert [[guess["token"] for guess in mask] for mask in both[1]] == [[g["id"] for g in m[:5]] for m in expected[1]]
    assert all(mask[0]["sequence"].count("[MASK]") == 1 for mask in both[1])
    assert place.post("encoder", {"inputs": two})[1] != both[1], "without parameters it is feature-extraction"


REFUSED = [
    ("single", {"inputs": "a", "parameters": {"topk": 1}}, "parameters: no key 'topk' (did you mean 'top_k'?); there"),
    ("single", {"inputs": "a", "options": {}}, "no key 'options'; there are: inputs, parameters"),
    ("single", {"inputs": "a", "parameters": {"function_to_apply": "sigmoid"}}, "parameters: function_to_apply: input"),
    ("single", {"inputs": "a", "parameters": {"top_k": 0}}, "parameters: top_k: input should be greater"),
    ("single", {"inputs": "a", "parameters": {"top_k": True}}, "parameters: top_k: input should be a valid integer"),
    ("single", {"inputs": []}, "inputs: the list is empty"),
    ("single", {}, "inputs: field required"),
    ("single", {"inputs": None}, "inputs: number 0 is not a text, which single reads"),
    ("single", {"inputs": {"text": "a", "text_pair": "b"}}, "inputs: number 0 is not a text, which single reads"),
    ("single", {"inputs": {"text": 1}}, "text: row 0 is not text"),
    ("single", {"inputs": ["a"] * 257}, "257 rows; a request takes at most 256"),
    ("single", {"inputs": "a" * 20_001}, "text: row 0 has 20001 characters"),
    ("pair", {"inputs": "a"}, "inputs: number 0 is not an object with text and text_pair, which pair reads"),
    ("tagging", {"inputs": "a", "parameters": {"aggregation_strategy": "none"}}, "parameters: aggregation_strategy: "),
    ("tagging", {"inputs": "a", "parameters": {"stride": 3}}, "parameters: no key 'stride'; there are: aggregation_"),
    ("span", {"inputs": {"question": "a"}}, "inputs: number 0 is not an object with question and context"),
    ("span", {"inputs": {"question": "a", "context": "b"}, "parameters": {"top_k": 2}}, "parameters: top_k: input"),
    (
        "span",
        {"inputs": {"question": "a", "context": "b"}, "parameters": {"handle_impossible_answer": True}},
        "parameters: handle_impossible_answer: span was trained on questions that all have an answer; leave it out",
    ),
    ("choice", {"inputs": "a"}, "parameters: candidate_labels: field required"),
    ("choice", {"inputs": "a", "parameters": {"candidate_labels": ["a"]}}, "the column 'choices': row 0 has 1 choices"),
    (
        "choice",
        {"inputs": "a", "parameters": {"candidate_labels": list("abc"), "multi_label": True}},
        "parameters: mul",
    ),
    ("encoder", {"inputs": "a", "dimensions": 3}, "parameters: no key 'dimensions'; there are: encoding_format, norm"),
    ("encoder", {"inputs": "a", "parameters": {}}, "text: row 0 has 0 [MASK]; 1 to 16 are expected"),
    ("encoder", {"inputs": "[MASK]" * 17, "parameters": {}}, "text: row 0 has 17 [MASK]; 1 to 16 are expected"),
    ("encoder", {"inputs": "[MASK]", "parameters": {"targets": ["a"]}}, "parameters: no key 'targets'; there are: top"),
    ("encoder", {"inputs": "[MASK]" + "犬 " * 100, "parameters": {}}, "text: row 0 has "),
    (
        "encoder",
        {"inputs": ["[MASK]" * 16 + "a" * 19_000] * 3, "parameters": {"top_k": 20}},
        "inputs: the texts with their guesses would be too long",
    ),
    ("single", b"{", "the body: invalid JSON"),
    ("single", b"[]", "the body: input should be an object"),
    ("single", b'{"inputs": "\xff"}', "the body is not JSON in UTF-8"),
    ("single", b'{"inputs": "\\ud800"}', "the body: invalid JSON"),
    ("single", b'{"inputs": ' + b"[" * 5000 + b"]" * 5000 + b"}", "the body is nested too deeply"),
]


@pytest.mark.parametrize(("name", "body", "sentence"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_refused(name: str, body: Any, sentence: str, place: Place) -> None:
    status, answer = place.post(name, body)
    assert (status, list(answer)) == (422, ["error"])
    assert answer["error"].startswith(sentence)
    assert len(answer["error"]) < 300


def test_an_unknown_name_is_404(place: Place) -> None:
    assert place.post("singel", {"inputs": "a"})[0] == 404
    with pytest.raises(HfHubHTTPError, match="404"):
        place.client("nothing").text_classification("a")


def test_folders_are_served_by_name(place: Place) -> None:
    assert Source.parse("mini=a/b=c") == Source("mini", folder=Path("a/b=c"))
    assert Source.parse(str(Source.parse("mini=encoders"))) == Source("mini", folder=Path("encoders").resolve())
    assert list(model_sources.sources(["a=x", "b@3", "a=x"])) == ["a", "b@3"]
    with pytest.raises(UsageError, match="another model has the name a"):
        model_sources.sources(["a=x", "a=y"])
    with pytest.raises(UsageError, match="a name has letters"):
        Source.parse("a/b=x")
    models, source = Catalogue(), Source("a", folder=place.folders["encoder"])
    with pytest.raises(InputError, match="nowhere: no such folder"):
        models.serve({"a": Source("a", folder=Path("nowhere"))})
    with pytest.raises(InputError, match="two models have the name"):
        models.serve({"a": source, "a.fill_mask": source._replace(model="a.fill_mask")})
    models.serve({"a": source})
    before = list(models)
    models.follow()
    models.serve({"a": source})
    assert [model.name for model in before] == ["a", "a.fill_mask"]
    assert all(one is other for one, other in zip(models, before, strict=True)), "it is opened once"
    models.serve({"a": source._replace(folder=place.folders["single"])})
    assert [model.task.kind for model in models] == ["single"]
    models.close()
