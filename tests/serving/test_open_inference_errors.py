"""Invalid requests of the Open Inference Protocol, as JSON and as binary tensors: each gets one sentence."""

import gzip
import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

from pipelines.core.errors import InputError
from pipelines.serving import tensor_bodies
from pipelines.serving.app import application
from pipelines.serving.keys import Keys
from tests.support import compressed, tensor_requests
from tests.support.tensor_requests import Service, as_binary, as_json, ask, infer, packed

pytestmark = pytest.mark.slow  # opening models takes seconds


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    place, names = tmp_path_factory.mktemp("models"), ("single", "pair", "choice")
    with tensor_requests.serving({kind: compressed.teacher("bert", kind, place / kind) for kind in names}) as running:
        yield running


TEXT = {"name": "text", "shape": [2], "datatype": "BYTES", "data": ["犬", "猫"]}
OPTIONS = {"name": "choices", "shape": [2, 3], "datatype": "BYTES", "data": ["a"] * 6}
SECOND = {"name": "text_pair", "shape": [1], "datatype": "BYTES", "data": ["犬"]}


def changed(**changes: Any) -> dict[str, Any]:
    return {"inputs": [TEXT | changes]}


WRONG: dict[str, tuple[str, Any, str]] = {
    "no object": ("single", [], "the body: Input should be an object"),
    "no inputs": ("single", {}, "inputs: Field required"),
    "none of the inputs": ("single", {"inputs": []}, "the input text is missing; single version 1 takes text"),
    "one missing": ("pair", changed(), "the input text_pair is missing; pair version 1 takes text, text_pair"),
    "another input": (
        "single",
        {"inputs": [TEXT, SECOND]},
        "no input 'text_pair' (did you mean 'text'?); there are: text",
    ),
    "an input twice": ("single", {"inputs": [TEXT, TEXT]}, "the input text occurs twice"),
    "many inputs": ("single", {"inputs": [TEXT] * 20_000}, "inputs: List should have at most 16 items"),
    "a long name": ("single", changed(name="secret " * 99), "no input 'secret secre"),
    "unequal": (
        "pair",
        {"inputs": [TEXT, SECOND]},
        "the inputs have different numbers of rows: text has 2, text_pair has 1",
    ),
    "numbers": ("single", changed(datatype="FP32", data=[1, 2]), "the input text: the datatype is BYTES, and no other"),
    "a number": ("single", changed(data=["a", 1]), "the input text: element 1 of the data is not a string"),
    "null": ("single", changed(data=["a", None]), "the input text: element 1 of the data is not a string"),
    "a smaller shape": ("single", changed(shape=[1]), "the input text: the data has 2 elements; the shape [1] has 1"),
    "a larger shape": ("single", changed(shape=[3]), "the input text: the data has 2 elements; the shape [3] has 3"),
    "no rows": ("single", changed(shape=[0], data=[]), "the input text has no rows; a request has at least one"),
    "no shape": ("single", changed(shape=[]), "the input text: the shape is []; [N] or [N, 1] is expected for N rows"),
    "a wide shape": ("single", changed(shape=[1, 2]), "the input text: the shape is [1, 2]; [N] or [N, 1]"),
    "a negative shape": ("single", changed(shape=[-2]), "inputs.0.shape.0: Input should be greater than or equal to 0"),
    "half a row": ("single", changed(shape=[0.5]), "inputs.0.shape.0: Input should be a valid integer"),
    "a huge shape": ("single", changed(shape=[2**63]), "inputs.0.shape.0: Input should be less than or equal to"),
    "many rows": ("single", changed(shape=[2**40]), "1099511627776 rows; a request takes at most 256"),
    "many axes": ("single", changed(shape=[1] * 99), "inputs.0.shape: List should have at most 16 items"),
    "ragged": (
        "single",
        changed(data=[["犬"], "猫"]),
        "the input text: the lists in its data do not have the shape [2]",
    ),
    "deep": (
        "choice",
        {"inputs": [TEXT, OPTIONS | {"data": [[["a"]] * 3] * 2}]},
        "the input choices: element 0 of the data",
    ),
    "few choices": (
        "choice",
        {"inputs": [TEXT, OPTIONS | {"shape": [2, 2], "data": ["a"] * 4}]},
        "the input choices: the shape is [2, 2]; [N, 3] is expected for N rows",
    ),
    "no choices": (
        "choice",
        {"inputs": [TEXT, OPTIONS | {"shape": [2**40, 0], "data": []}]},
        "the input choices: the shape",
    ),
    "no data": ("single", changed(data=None), "the input text: it has neither data nor binary_data_size"),
    "two kinds of data": (
        "single",
        changed(parameters={"binary_data_size": 0}),
        "the input text: it has both data and binary_data_size",
    ),
    "shared memory": (
        "single",
        changed(data=None, parameters={"shared_memory_region": "r", "shared_memory_byte_size": 8}),
        "the input text: shared memory is not supported",
    ),
    "a long text": (
        "single",
        changed(shape=[1], data=["犬" * 20_001]),
        "text: row 0 has 20001 characters; it may have",
    ),
    "long texts": ("single", changed(shape=[11], data=["犬" * 20_000] * 11), "220000 characters in all rows"),
    "another output": (
        "single",
        {**changed(), "outputs": [{"name": "value"}]},
        "no output 'value'; there are: label, score",
    ),
    "an output twice": ("single", {**changed(), "outputs": [{"name": "label"}] * 2}, "the output label occurs twice"),
    "labels of labels": (
        "single",
        {**changed(), "outputs": [{"name": "label", "parameters": {"classification": 1}}]},
        "the output label: classification is for the output scores",
    ),
    "minus one label": (
        "single",
        {**changed(), "outputs": [{"name": "scores", "parameters": {"classification": -1}}]},
        "outputs.0.parameters.classification: Input should be greater than or equal to 0",
    ),
    "binary by word": (
        "single",
        {**changed(), "parameters": {"binary_data_output": "yes"}},
        "parameters.binary_data_output: Input should be a valid boolean",
    ),
    "an output in shared memory": (
        "single",
        {**changed(), "outputs": [{"name": "label", "parameters": {"shared_memory_region": "r"}}]},
        "the output label: shared memory is not supported",
    ),
    "an id that is a number": ("single", {**changed(), "id": 7}, "id: Input should be a valid string"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_request_is_one_sentence(service: Service, name: str) -> None:
    kind, request, sentence = WRONG[name]
    answer = infer(service, kind, request)
    assert answer.status == 400
    assert list(answer.json) == ["error"]
    assert answer.json["error"].startswith(sentence)
    assert len(answer.json["error"]) < 200


def bytes_of(size: int | None, **changes: Any) -> bytes:
    """The JSON of a request with one binary input of two rows."""
    tensor = {"name": "text", "shape": [2], "datatype": "BYTES"} | changes
    return json.dumps({"inputs": [tensor | {"parameters": {"binary_data_size": size}}]}).encode()


TWO = packed(["犬", "猫"])  # 14 bytes
WRONG_BYTES: dict[str, tuple[bytes, bytes, str]] = {
    "beyond the body": (bytes_of(15), TWO, "the input text: its binary data ends beyond the body"),
    "far beyond the body": (bytes_of(2**63 - 1), TWO, "the input text: its binary data ends beyond the body"),
    "a negative size": (bytes_of(-1), TWO, "inputs.0.parameters.binary_data_size: Input should be greater than"),
    "bytes of no input": (bytes_of(14), TWO + b"1", "the last 1 bytes of the body belong to no input"),
    "no size": (bytes_of(None), TWO, "the input text: it has neither data nor binary_data_size"),
    "fewer elements": (
        bytes_of(7),
        TWO[:7],
        "the input text: the binary data ends before element 1; the shape [2] has 2",
    ),
    "half a length": (bytes_of(9), TWO[:9], "the input text: the binary data ends before element 1"),
    "more elements": (bytes_of(14, shape=[1]), TWO, "the input text: 7 bytes follow its 1 elements"),
    "a long element": (bytes_of(10), TWO[:10] + b"", "the input text: the binary data ends before element 1"),
    "half an element": (bytes_of(13), TWO[:13], "the input text: element 1 has 3 bytes, but only 2 follow"),
    "a negative length": (
        bytes_of(14),
        struct.pack("<i", -1) + TWO[4:],
        "the input text: element 0 has 4294967295 bytes, but only 10 follow",
    ),
    "a big-endian length": (
        bytes_of(14),
        struct.pack(">I", 3) + TWO[4:],
        "the input text: element 0 has 50331648 bytes",
    ),
    "not UTF-8": (
        bytes_of(10),
        struct.pack("<I", 2) + b"\xff\xfe" + bytes(4),
        "the input text: element 0 is not UTF-8",
    ),
    "half a surrogate pair": (
        bytes_of(11),
        struct.pack("<I", 3) + b"\xed\xa0\x80" + bytes(4),
        "the input text: element 0 is not UTF-8",
    ),
    "many empty elements": (
        bytes_of(400_000, shape=[100_000]),
        bytes(400_000),
        "100000 rows; a request takes at most 256",
    ),
    "a key twice": (
        b'{"id": "a", "id": "b", "inputs": []}',
        b"\xff",
        "the body: the key 'id' occurs twice in one object",
    ),
    "no JSON": (b'{"inputs": [', TWO, "the body: Invalid JSON"),
}


@pytest.mark.parametrize("name", WRONG_BYTES)
def test_wrong_binary_data_is_one_sentence(service: Service, name: str) -> None:
    text, data, sentence = WRONG_BYTES[name]
    answer = ask(service.address, "/v2/models/single/infer", text + data, Inference_Header_Content_Length=len(text))
    assert answer.status == 400
    assert list(answer.json) == ["error"]
    assert answer.json["error"].startswith(sentence)


@pytest.mark.parametrize("length", ["-1", "1e2", "", "99999", "9" * 5000, "²", "0x10", "+5"])
def test_a_wrong_length_of_the_json_is_one_sentence(service: Service, length: str) -> None:
    body = bytes_of(14) + TWO
    answer = ask(service.address, "/v2/models/single/infer", body, Inference_Header_Content_Length=length)
    why = f"the header {tensor_bodies.LENGTH} is not a number of bytes up to the body's {len(body)}"
    assert (answer.status, answer.json) == (400, {"error": why})
    zero = ask(service.address, "/v2/models/single/infer", body, Inference_Header_Content_Length=0)
    assert (zero.status, "the body: Invalid JSON" in zero.json["error"]) == (400, True)


def test_unknown_names_are_404(service: Service) -> None:
    good = json.dumps({"inputs": as_json("single")}).encode()
    for path, body, sentence in (
        ("/v2/models/singel", None, "no model 'singel' (did you mean 'single'?); there are: choice, pair"),
        ("/v2/models/singel/ready", None, "no model 'singel'"),
        ("/v2/models/singel/infer", good, "no model 'singel'"),
        ("/v2/models/single/versions/2", None, "no version of single '2'; there are: 1"),
        ("/v2/models/single/versions/01/ready", None, "no version of single '01'"),
        ("/v2/models/single/versions/1.0/infer", good, "no version of single '1.0'"),
        ("/v2/models/single/versions/1/infer", None, "no such path, or not with this method"),
        ("/v2/models/single/stats", None, "no such path"),
        ("/v2/models/single", b"{}", "no such path"),
        ("/v2/", None, "no such path"),
        ("/v2", b"{}", "no such path"),
    ):
        answer = ask(service.address, path, body)
        assert (answer.status, list(answer.json)) == (404, ["error"]), path
        assert answer.json["error"].startswith(sentence)


def test_errors_before_a_route_have_the_protocols_shape(service: Service) -> None:
    path = "/v2/models/single/infer"
    twice = ask(service.address, path, b'{"inputs": [], "inputs": []}')
    assert (twice.status, list(twice.json)) == (400, ["error"])
    large = ask(service.address, path, b"", Content_Length=4_000_001)
    assert (large.status, list(large.json)) == (413, ["error"])
    assert list(ask(service.address, "/predict", b"", Content_Length=4_000_001).json) == ["detail"]
    packed_body = gzip.compress(json.dumps({"inputs": as_json("single")}).encode())
    zipped = ask(service.address, path, packed_body, Content_Encoding="gzip")
    assert (zipped.status, zipped.json) == (400, {"error": "the body is compressed; send it without Content-Encoding"})
    for plain in ("", "Identity"):
        body = json.dumps({"inputs": as_json("single")}).encode()
        assert ask(service.address, path, body, Content_Encoding=plain).status == 200


def test_a_missing_key_is_an_error_of_the_protocol(service: Service) -> None:
    client = TestClient(application(service.models, Keys.parse(["someone 0123456789abcdef"], "keys")))
    refused = client.get("/v2/models/single")
    assert (refused.status_code, list(refused.json())) == (401, ["error"])
    assert refused.headers["www-authenticate"] == "Bearer"
    assert list(client.get("/models/single").json()) == ["detail"]
    assert client.get("/v2/health/ready").json() == {"ready": True}
    allowed = client.get("/v2/models/single", headers={"Authorization": "Bearer 0123456789abcdef"})
    assert allowed.json()["name"] == "single"
    forbidden = client.delete("/v2/models/single", headers={"X-API-Key": "0123456789abcdef"})
    assert (forbidden.status_code, list(forbidden.json())) == (403, ["error"])


def test_damaged_bodies_are_refused_or_read(service: Service) -> None:
    """A body with random bytes in place of some is read, or raises InputError."""
    inputs, data = as_binary("choice")
    text = json.dumps({"inputs": inputs}).encode()
    random, model, refused = np.random.default_rng(7), service.models["choice"], []
    for number in range(3000):
        body = bytearray(text + data)
        first = 0 if number % 2 else len(text)  # in all of it, or in the binary data
        for place in random.integers(first, len(body), 1 + number % 4):
            body[place] = random.choice([0, 1, 45, 49, 57, 92, 125, 255, random.integers(256)])
        sent = bytes(body[: len(body) - int(random.integers(0, 3))])
        try:
            model.rows(tensor_bodies.columns(*tensor_bodies.parsed(sent, str(len(text))), model))
        except InputError as error:
            refused.append(str(error))
    assert 1000 < len(refused) < 3000
    assert max(map(len, refused)) < 300
