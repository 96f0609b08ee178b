"""The Open Inference Protocol v2 over HTTP, as JSON and as binary tensors, for every kind of rows."""

import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import numpy as np
import pyarrow as pa
import pytest

from pipelines.core import schema
from pipelines.serving import tensors
from tests.support import compressed, exported, kinds, raw_http, served, tensor_requests
from tests.support.tensor_requests import (
    LENGTH,
    ROWS,
    Service,
    as_binary,
    as_json,
    ask,
    flat,
    infer,
    read_binary,
    rows,
    shape_of,
)

pytestmark = pytest.mark.slow  # opening a model of every kind takes seconds

KINDS = tuple(kinds.TASKS)
LISTED = ("entities", "entity_scores")  # outputs whose elements are JSON lists
DTYPES = {"FP32": "<f4", "INT32": "<i4"}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A service with a model of each kind, by its name; that of kind single is exported."""
    place = tmp_path_factory.mktemp("models")
    folders = {kind: compressed.teacher("bert", kind, place / kind) for kind in KINDS if kind != "single"}
    with tensor_requests.serving(
        folders | {"single": exported.of_teacher(tmp_path_factory, "bert") / "onnx"}
    ) as running:
        yield running


def expected(service: Service, kind: str) -> dict[str, list[Any]]:
    """The predictor's own answers, by column."""
    return service.models[kind].predictor.predict(rows(kind)).to_pydict()


@pytest.mark.parametrize("kind", KINDS)
def test_json_has_the_bits_of_the_predictor(service: Service, kind: str) -> None:
    answer = infer(service, kind, {"inputs": as_json(kind), "id": "犬-1"})
    assert answer.status == 200, answer.body
    assert LENGTH not in answer.headers
    assert (answer.json["model_name"], answer.json["model_version"], answer.json["id"]) == (kind, "1", "犬-1")
    columns, outputs = expected(service, kind), answer.json["outputs"]
    assert [tensor["name"] for tensor in outputs] == list(columns)
    for tensor in outputs:
        column = columns[tensor["name"]]
        listed = tensor["name"] in LISTED
        values = [json.loads(text) for text in tensor["data"]] if listed else tensor["data"]
        assert tensor["shape"] == ([ROWS] if listed else shape_of(column))
        assert values == (column if listed else flat(column)), tensor["name"]


@pytest.mark.parametrize("kind", KINDS)
def test_binary_has_the_bits_of_the_predictor(service: Service, kind: str) -> None:
    inputs, data = as_binary(kind)
    answer = infer(service, kind, {"inputs": inputs, "parameters": {"binary_data_output": True}}, data)
    assert (answer.status, answer.headers["content-type"]) == (200, "application/octet-stream"), answer.body
    columns, outputs = expected(service, kind), read_binary(answer)
    assert list(outputs) == list(columns)
    for name, (shape, values) in outputs.items():
        if name in LISTED:
            assert [json.loads(text) for text in values] == columns[name]
        elif isinstance(values, bytes):
            dtype = DTYPES["INT32" if name == "start" else "FP32"]
            assert values == np.array(columns[name], dtype).tobytes(), name
            assert shape == shape_of(columns[name])
        else:
            assert (shape, values) == ([ROWS], columns[name])


@pytest.mark.parametrize("kind", KINDS)
def test_the_plain_protocol_has_the_same_numbers(service: Service, kind: str) -> None:
    body = json.dumps({"rows": rows(kind).to_pylist(), "scores": True}).encode()
    plain = ask(service.address, f"/predict/{kind}", body).json["predictions"]
    outputs = {
        tensor["name"]: tensor["data"] for tensor in infer(service, kind, {"inputs": as_json(kind)}).json["outputs"]
    }
    compared = 0
    for name in {"score", "value", "no_answer", "start"} & set(outputs):
        assert outputs[name] == [row[name] for row in plain]
        compared += 1
    if "scores" in outputs:
        assert outputs["scores"] == [score for row in plain for score in row["scores"].values()]
    assert compared


@pytest.mark.parametrize("kind", KINDS)
def test_metadata_describes_the_tensors(service: Service, kind: str) -> None:
    about = ask(service.address, f"/v2/models/{kind}")
    assert (about.status, about.json["name"], about.json["versions"]) == (200, kind, ["1"])
    assert ask(service.address, f"/v2/models/{kind}/versions/1").json == about.json
    assert about.json["platform"] == ("onnxruntime_onnx" if kind == "single" else "pytorch")
    labels = len(kinds.TASKS[kind].labels)
    assert about.json["inputs"] == [
        {"name": name, "datatype": "BYTES", "shape": [-1, labels] if name == "choices" else [-1]}
        for name in schema.INPUTS[kind]
    ]
    answer = infer(service, kind, {"inputs": as_json(kind)}).json["outputs"]
    assert about.json["outputs"] == [
        {"name": tensor["name"], "datatype": tensor["datatype"], "shape": [-1, *tensor["shape"][1:]]}
        for tensor in answer
    ]
    labels_and_scores = {"score": "FP32", "scores": "FP32"}
    numbers = {"regression": {"value": "FP32"}, "tagging": {"score": "FP32"}}
    numbers["span"] = {"start": "INT32", "score": "FP32", "no_answer": "FP32"}
    with_numbers = {tensor["name"]: tensor["datatype"] for tensor in answer if tensor["datatype"] != "BYTES"}
    assert with_numbers == numbers.get(kind, labels_and_scores)


def test_health_and_versions(service: Service) -> None:
    for path, body in {
        "/v2": {"name": "bertline", "version": "1", "extensions": ["binary_tensor_data", "classification"]},
        "/v2/health/live": {"live": True},
        "/v2/health/ready": {"ready": True},
        "/v2/models/span/ready": {"name": "span", "ready": True},
        "/v2/models/span/versions/1/ready": {"name": "span", "ready": True},
    }.items():
        assert (ask(service.address, path).status, ask(service.address, path).json) == (200, body)
    sent = {"inputs": as_json("span")}
    assert (
        infer(service, "span", sent, path="/v2/models/span/versions/1/infer").json == infer(service, "span", sent).json
    )


def test_a_service_without_models_is_not_ready() -> None:
    with served.serving(served.catalogue({})) as address:
        assert ask(address, "/v2/health/live").status == 200
        health = raw_http.get(address, "/health")
        assert (health.status, health.json()) == (503, {"detail": "no model is served"})
        assert raw_http.get(address, "/ping").status == 404, "as MLflow's server answers"
        assert (ask(address, "/v2/health/ready").status, ask(address, "/v2/health/ready").json) == (
            503,
            {"ready": False},
        )


def test_outputs_are_chosen_one_by_one(service: Service) -> None:
    outputs = [{"name": "start", "parameters": {"binary_data": True}}, {"name": "answer"}]
    answer = infer(service, "span", {"inputs": as_json("span"), "outputs": outputs})
    head = json.loads(answer.body[: int(answer.headers[LENGTH])])
    assert [tensor["name"] for tensor in head["outputs"]] == ["start", "answer"]
    columns = expected(service, "span")
    assert head["outputs"][1]["data"] == columns["answer"]
    assert answer.body[int(answer.headers[LENGTH]) :] == np.array(columns["start"], "<i4").tobytes()
    outputs = [{"name": "start", "parameters": {"binary_data": False}}]
    parameters = {"binary_data_output": True, "priority": 3}
    plain = infer(service, "span", {"inputs": as_json("span"), "outputs": outputs, "parameters": parameters})
    assert "id" not in plain.json
    assert [tensor["data"] for tensor in plain.json["outputs"]] == [columns["start"]]


@pytest.mark.parametrize("kind", ["single", "pair", "choice"])
def test_classification_gives_the_best_labels(service: Service, kind: str) -> None:
    scores, labels = expected(service, kind)["scores"], kinds.TASKS[kind].labels
    for count in (1, 2, 99):
        best = min(count, len(labels))
        outputs = [{"name": "scores", "parameters": {"classification": count, "binary_data": True}}]
        shape, texts = read_binary(infer(service, kind, {"inputs": as_json(kind), "outputs": outputs}))["scores"]
        assert shape == [ROWS, best]
        for row, numbers in enumerate(scores):
            order = sorted(range(len(labels)), key=lambda index: -numbers[index])[:best]
            parts = [text.split(":") for text in texts[row * best : (row + 1) * best]]
            assert [(int(index), label) for _, index, label in parts] == [(index, labels[index]) for index in order]
            assert [float(np.float32(score)) for score, _, _ in parts] == [numbers[index] for index in order]
    outputs = [{"name": "scores", "parameters": {"classification": 0}}]
    (tensor,) = infer(service, kind, {"inputs": as_json(kind), "outputs": outputs}).json["outputs"]
    assert tensor["data"] == flat(scores)


def test_a_shape_may_have_a_second_axis_and_data_may_be_flat_or_nested(service: Service) -> None:
    usual = infer(service, "pair", {"inputs": as_json("pair")}).json
    columns = rows("pair").to_pydict()
    for nested in (False, True):
        inputs = [
            {"name": name, "shape": [ROWS, 1], "datatype": "BYTES", "data": [[t] for t in texts] if nested else texts}
            for name, texts in columns.items()
        ]
        assert infer(service, "pair", {"inputs": inputs}).json == usual
    inputs = as_json("choice")
    inputs[1]["data"] = flat(inputs[1]["data"])
    assert (
        infer(service, "choice", {"inputs": inputs}).json
        == infer(service, "choice", {"inputs": as_json("choice")}).json
    )


def test_deadlines(service: Service) -> None:
    body = {"inputs": as_json("single")}
    soon = infer(service, "single", {**body, "parameters": {"timeout": 1}})
    assert (soon.status, soon.json) == (504, {"error": "no answer within 1e-06 s, the timeout of the request"})
    assert infer(service, "single", {**body, "parameters": {"timeout": 2**62}}).status == 200
    path, text = "/v2/models/single/infer", json.dumps(body).encode()
    assert ask(service.address, path, text, x_request_timeout_seconds="1e-9").status == 504
    wrong = ask(service.address, path, text, x_request_timeout_seconds="soon")
    assert (wrong.status, list(wrong.json)) == (400, ["error"])


def test_openapi_declares_the_requests_and_responses(service: Service) -> None:
    spec = ask(service.address, "/openapi.json").json
    schemas = set(re.findall(r"#/components/schemas/(\w+)", json.dumps(spec)))
    assert schemas <= set(spec["components"]["schemas"])
    seen = set()
    for path, body in (
        ("/v2", None),
        ("/v2/health/live", None),
        ("/v2/health/ready", None),
        ("/v2/models/{name}", None),
        ("/v2/models/{name}/ready", None),
        ("/v2/models/{name}/versions/{version}", None),
        ("/v2/models/{name}/infer", {"inputs": as_json("choice")}),
        ("/v2/models/{name}/infer", {"inputs": []}),
        ("/v2/models/{name}/versions/{version}/infer", {"inputs": as_json("choice")}),
    ):
        sent = None if body is None else json.dumps(body).encode()
        operation = spec["paths"][path]["post" if sent else "get"]
        answer = ask(service.address, path.format(name="choice", version=1), sent)
        response = operation["responses"][str(answer.status)]["content"]["application/json"]["schema"]
        jsonschema.Draft202012Validator(response | {"components": spec["components"]}).validate(answer.json)
        if body:
            request = operation["requestBody"]["content"]["application/json"]["schema"]
            jsonschema.Draft202012Validator(request).validate(body)
        seen.add(answer.status)
    assert seen == {200, 400}


def test_bytes_are_packed_as_they_are_read() -> None:
    texts = ["", "犬", "a\x00b", "😀" * 100]
    assert tensors.from_bytes(memoryview(tensors.to_bytes("BYTES", texts)), [4], "it") == texts
    assert tensors.to_bytes("BYTES", ["犬"]) == b"\x03\x00\x00\x00\xe7\x8a\xac"
    assert tensors.to_bytes("FP32", [1.0]) == b"\x00\x00\x80\x3f"


def test_the_most_rows_are_answered_in_order(service: Service) -> None:
    texts = [f"私は犬が好き。{number}" for number in range(256)]
    inputs = [{"name": "text", "shape": [256], "datatype": "BYTES", "data": texts}]
    answer = infer(service, "single", {"inputs": inputs, "outputs": [{"name": "score"}]})
    scores = service.models["single"].predictor.predict(pa.table({"text": texts})).column("score").to_pylist()
    assert answer.json["outputs"][0]["data"] == scores
