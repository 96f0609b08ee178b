"""The log of requests: a line for each, in JSON or for people, with its id, and never a text of the request."""

import json
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fastapi.testclient import TestClient

from flows.local import http_service
from pipelines.core.errors import UsageError
from pipelines.serving import request_log
from pipelines.serving.app import application
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.keys import Keys
from tests.support import compressed, served

pytestmark = pytest.mark.slow  # opening models takes seconds
SECRET = "秘密の文 secret"
KEY = {"Authorization": "Bearer 0123456789abcdef"}


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalogue]:
    place = tmp_path_factory.mktemp("models")
    folders = {kind: compressed.teacher("bert", kind, place / kind) for kind in ("single", "span", "choice")}
    opened = served.catalogue(folders)
    yield opened
    opened.close()


@pytest.fixture
def client(models: Catalogue) -> TestClient:
    return TestClient(application(models, Keys.parse(["shop 0123456789abcdef"], "keys"), log_format="json"))


def entries(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(text) for text in capsys.readouterr().err.splitlines()]


def test_an_entry_has_the_numbers_of_its_request(
    client: TestClient, models: Catalogue, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = {
        "single": [{"text": SECRET}, {"text": "犬"}],
        "span": [{"question": SECRET, "context": "試合は延長の末に決着した。" * 40}],
        "choice": [{"text": SECRET, "choices": ["犬", "映画", "試合"]}] * 2,
    }
    for kind, sent in rows.items():
        headers = KEY | {"x-request-id": f"a-{kind}"}
        answer = client.post(f"/predict/{kind}", json={"rows": sent}, headers=headers)
        assert (answer.status_code, answer.headers["x-request-id"]) == (200, f"a-{kind}")
        (entry,) = entries(capsys)
        names = ("request_id", "key", "method", "path", "model", "version", "rows", "status", "cause")
        expected = [f"a-{kind}", "shop", "POST", "/predict/{name}", kind, 1, len(sent), 200, ""]
        assert [entry[name] for name in names] == expected
        encoded = models[kind].predictor.encode(pa.RecordBatch.from_pylist(sent)).column("input_ids")
        flat = encoded.flatten().flatten() if kind == "choice" else encoded.flatten()
        assert entry["tokens"] == len(flat) > 0
        assert 0 <= entry["queue_ms"] < entry["queue_ms"] + entry["run_ms"] <= entry["ms"] + 0.1
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", entry["time"])


def test_requests_of_one_batch_have_each_their_own_tokens(models: Catalogue) -> None:
    from asyncio import Future, new_event_loop
    from contextlib import closing

    from pipelines.serving import row_batcher
    from pipelines.serving.admission import Part
    from pipelines.serving.request_work import Work

    with closing(new_event_loop()) as loop:
        for kind, names in (("single", ["text"]), ("span", ["question", "context"]), ("choice", ["text", "choices"])):
            texts = ["犬", SECRET * 30, "", "試合は延長の末に決着した。" * 20]
            of_parts = [texts[:1], texts[1:3], texts[3:]]
            columns = [
                {name: [[text] * 3 for text in some] if name == "choices" else some for name in names}
                for some in of_parts
            ]
            model = models[kind]
            batches = [model.rows(each) for each in columns]
            answers: list[Future[Any]] = [loop.create_future() for _ in batches]
            parts = [Part(0.0, i, rows, 1, answers[i], Work()) for i, rows in enumerate(batches)]
            alone = [model.batcher._of_parts([part], model.predictor)[1] for part in parts]
            assert row_batcher.INPUTS[kind] == names
            assert model.batcher._of_parts(parts, model.predictor)[1] == np.concatenate(alone).tolist()
            assert [one for (one,) in alone] != [0, 0, 0]


def test_a_refusal_has_a_cause_and_no_text(client: TestClient, capsys: pytest.CaptureFixture[str]) -> None:
    body = {"rows": [{"text": SECRET}]}
    secret = {SECRET: [{SECRET: SECRET}]}
    for path, sent, headers, status, cause in (
        ("/predict/single", body, {}, 401, "no valid key"),
        (f"/predict/{SECRET}", body, KEY, 404, "no such path or model"),
        (f"/{SECRET}", body, KEY, 404, "no such path or model"),
        ("/predict/single", secret, KEY, 422, "invalid request"),
        ("/hf/single", secret, KEY, 422, "invalid request"),
        ("/invocations", secret, KEY, 400, "invalid request"),
        ("/v2/models/single/infer", secret, KEY, 400, "invalid request"),
        ("/v1/embeddings", secret, KEY, 422, "invalid request"),
        ("/predict/single", body, KEY | {"x-request-timeout-seconds": "0.000001"}, 504, "deadline"),
    ):
        assert client.post(path, json=sent, headers=headers).status_code == status
        text = capsys.readouterr().err
        (entry,) = map(json.loads, text.splitlines())
        assert (entry["status"], entry["cause"]) == (status, cause)
        assert "秘密" not in text
        assert "secret" not in text


def test_another_host_name_is_a_cause_of_its_own(models: Catalogue, capsys: pytest.CaptureFixture[str]) -> None:
    local = TestClient(application(models, hosts=("127.0.0.1",), log_format="json"), base_url="http://127.0.0.1")
    assert local.get("/health").status_code == 200
    assert local.get("/health", headers={"Host": "evil.example"}).status_code == 400
    good, refused = entries(capsys)
    assert (good["cause"], refused["cause"], refused["path"]) == ("", "another host name", "")


def test_an_id_that_could_forge_a_line_is_replaced(client: TestClient, capsys: pytest.CaptureFixture[str]) -> None:
    for sent in ("x" * 129, 'a" b', "a\x1b[2J", "-", "犬".encode().decode("latin-1")):
        answer = client.get("/health", headers={"x-request-id": sent.encode("latin-1")})
        (entry,) = entries(capsys)
        assert entry["request_id"] == answer.headers["x-request-id"] != sent
        assert re.fullmatch("[0-9a-f]{32}", entry["request_id"])


def test_lines_for_people(models: Catalogue, capsys: pytest.CaptureFixture[str]) -> None:
    reading = TestClient(application(models, log_format="text"))
    reading.post("/predict/single", json={"rows": [{"text": "犬"}]})
    reading.post("/predict/none", json={"rows": [{"text": "犬"}]})
    reading.get("/health")
    good, bad, health = capsys.readouterr().err.splitlines()
    pattern = (
        r"\d\d:\d\d:\d\d 200 POST /predict/\{name\} \d+\.\d ms: 1 rows of single version 1, "
        r"\d+ tokens, \d+\.\d ms in the queue"
    )
    assert re.fullmatch(pattern, good), good
    assert re.fullmatch(r"\S+ 404 POST /predict/\{name\} \d+\.\d ms: no such path or model", bad)
    assert re.fullmatch(r"\S+ 200 GET /health \d+\.\d ms", health)


def test_without_lines_an_answer_still_has_an_id(models: Catalogue, capsys: pytest.CaptureFixture[str]) -> None:
    answer = TestClient(application(models)).get("/health", headers={"x-request-id": "one"})
    assert answer.headers["x-request-id"] == "one"
    assert capsys.readouterr().err == ""


def test_the_format_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BERTLINE_QUIET", "1")
    assert http_service.log_format() == request_log.OFF
    monkeypatch.delenv("BERTLINE_QUIET")
    assert http_service.log_format() == request_log.JSON
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    assert http_service.log_format() == request_log.TEXT
    monkeypatch.setenv(http_service.LOG_VARIABLE, "off")
    assert (http_service.log_format(), http_service.log_format("json")) == ("off", "json")
    with pytest.raises(UsageError, match=r"^--log-format: no format 'jsn' \(did you mean 'json'\?\)"):
        http_service.log_format("jsn")
    monkeypatch.setenv(http_service.LOG_VARIABLE, "xml")
    with pytest.raises(UsageError, match=r"^BERTLINE_LOG_FORMAT: no format 'xml'"):
        http_service.log_format()
