"""Requests that the HTTP service refuses before they reach a model."""

import asyncio
import http.client
import json
import re
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from pipelines.core.errors import InputError
from pipelines.serving import app, bodies, connections, docs_page, limits
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from pipelines.serving.protocols import plain
from tests.support import raw_http, served, tiny


def refused(body: dict[str, Any]) -> str:
    """The error that a client gets for the body of its request."""
    with pytest.raises(InputError) as error:
        limits.check(plain.columns(plain.parsed(json.dumps(body).encode(), ["text"]).rows))
    return str(error.value)


def test_a_request_of_more_work_than_a_minute_s_is_refused() -> None:
    row = {"text": "犬" * limits.MAX_CHARACTERS}
    limits.check({"text": [row["text"]] * 10})
    assert refused({"rows": [row] * 11}).startswith("220000 characters in all rows; a request takes at most")
    assert "at most 64" in refused({"rows": [{"choices": ["犬"] * 65}]})


def test_every_protocol_has_the_limits() -> None:
    for columns, sentence in (
        ({"text": ["犬"] * 257}, "257 rows; a request takes at most 256, and `bertline score` has no limit"),
        ({"text": ["犬", "x" * 20_001]}, "text: row 1 has 20001 characters; it may have 20000"),
        ({"text": ["犬", 1]}, "text: row 1 is not text"),
        ({"text": [None]}, "text: row 0 has no text"),
        ({"text": ["\ud800"]}, "text: row 0 has half of a surrogate pair; it is not Unicode text"),
        ({"choices": [["犬"] * 65]}, "choices: row 0 has 65 texts; it may have 64"),
        ({"choices": [["犬", None]]}, "choices: row 0 has no text"),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(sentence)}$"):
            limits.check(columns)


def test_an_error_repeats_no_text_and_cuts_an_unknown_key() -> None:
    assert refused({"rows": [{"txt" * 1000: "x"}]}) == f"rows.0.{('txt' * 14)[:40]}: Extra inputs are not permitted"
    assert refused({"rows": [{"text": 12}]}) == "rows.0.text: Input should be a valid string"
    for scores in ("yes", 1, None):
        assert refused({"rows": [{"text": "a"}], "scores": scores}) == "scores: Input should be a valid boolean"
    for body in (
        b"",
        b"{",
        b"\xff",
        b'{"rows": [{"text": "secret\xff"}]}',
        b"[" * 10_000,
        b'{"rows": [{"text": NaN}]}',
    ):
        with pytest.raises(InputError) as error:
            plain.parsed(body, ["text"])
        assert "secret" not in str(error.value)


def test_a_body_of_another_form_is_answered_with_the_form_that_is_read() -> None:
    form = '; send {"rows":[{"text":"...","text_pair":"..."}]}'
    for body, sentence in (
        ({"text": "secret"}, "rows: Field required"),
        ({"rows": "secret"}, "rows: Input should be a valid array"),
        ({"rows": ["secret"]}, "rows.0: Input should be an object"),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(sentence + form)}$"):
            plain.parsed(json.dumps(body).encode(), ["text", "text_pair"])


def answered(parts: list[bytes], pause: float = 0, **headers: str) -> tuple[int, str]:
    """Status and text of the reply of an application that counts bytes, behind limits of 1,000 bytes and 0.2 s."""

    async def counts(scope: Any, receive: Any, send: Any) -> None:
        size = str(len((await receive())["body"])).encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": size})

    async def run() -> tuple[int, str]:
        left, sent = list(parts), list[dict[str, Any]]()

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(pause)
            return {"type": "http.request", "body": left.pop(0), "more_body": bool(left)}

        async def send(message: dict[str, Any]) -> None:
            sent.append(message)

        raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
        await bodies.LimitedBodies(counts, 1000, 0.2)({"type": "http", "headers": raw}, receive, send)
        return sent[0]["status"], sent[1]["body"].decode()

    return asyncio.run(run())


def test_a_body_has_a_size_and_a_time() -> None:
    assert answered([b"x" * 500] * 2) == (200, "1000")
    assert answered([b"x" * 500] * 3)[0] == 413
    assert answered([b""], content_length="1001")[0] == 413
    assert answered([b""], content_length="-1")[0] == 413
    for coding in ("gzip, chunked", "gzip", "identity"):
        assert answered([b"{}"], transfer_encoding=coding)[0] == 501
    assert answered([b"{}"], transfer_encoding="Chunked") == (200, "2")
    assert answered([b"x"] * 100, pause=0.05) == (408, '{"detail":"the body was not sent within 0.2 s"}')


@pytest.mark.parametrize(
    ("body", "key"),
    [
        ('{"rows": [{"text": "a"}], "rows": [{"text": "b"}]}', "'rows'"),
        ('{"rows": [{"text": "a", "text": "a"}]}', "'text'"),
        ('{"rows": [], "r\\u006fws": []}', "'rows'"),  # one key in two spellings
        ('{"a": 1, "\\ud800": 1, "\\ud800": 2}', "'\\\\ud800'"),  # a lone surrogate, which JSON allows
        (f'{{"{"k" * 200}": 1, "{"k" * 200}": 2}}', f"'{'k' * 40}'"),
        ('{"\\n\\u001b[2J": 1, "\\n\\u001b[2J": 2}', "'\\\\n\\\\x1b[2J'"),
    ],
)
def test_a_key_that_stands_twice_is_refused_and_named(body: str, key: str) -> None:
    wanted = f'{{"detail":"the body: the key {key} occurs twice in one object; send it once"}}'
    for coding in ("utf-8", "utf-16"):  # json.loads accepts both as bytes
        encoded = body.encode(coding)
        assert answered([encoded[:10], encoded[10:]]) == (422, wanted)


@pytest.mark.parametrize(
    "body", ["", "{", "[" * 900, b"\xff\xfe\xfa".decode("latin-1"), '{"a": {"b": 1}, "b": {"b": 2}}']
)
def test_every_other_body_is_the_application_s_to_judge(body: str) -> None:
    assert answered([body.encode()]) == (200, str(len(body.encode())))


def test_a_key_cannot_hide_behind_a_deep_nesting() -> None:
    body = f'{{"index": {"[" * 100_000}{"]" * 100_000}, "data": 1, "data": 2}}'
    with pytest.raises(InputError, match=r"^the body is nested too deeply$"):
        bodies.check_keys(body.encode())


def test_every_protocol_reads_a_byte_order_mark_and_says_that_json_is_utf_8(tmp_path: Path) -> None:
    tensor = {"name": "text", "datatype": "BYTES", "shape": [1], "data": ["犬"]}
    folders = {"tiny": tiny.classifier(tmp_path / "tiny"), "mini": tiny.encoder(tmp_path / "mini")}
    models = Catalogue()
    models.serve({name: Source(name, folder=folder) for name, folder in folders.items()})
    with served.serving(models) as address:
        for path, body, invalid in (
            ("/predict/tiny", {"rows": [{"text": "犬"}]}, 422),
            ("/hf/tiny", {"inputs": "犬"}, 422),
            ("/invocations/tiny", {"inputs": ["犬"]}, 400),
            ("/v2/models/tiny/infer", {"inputs": [tensor]}, 400),
            ("/v1/embeddings", {"model": "mini", "input": "犬"}, 422),
        ):
            text = json.dumps(body, ensure_ascii=False)
            assert raw_http.post(address, path, text.encode("utf-8-sig")).status == 200, path
            wrong = raw_http.post(address, path, text.encode("shift_jis"))
            assert (wrong.status, b'"the body is not JSON in UTF-8"' in wrong.body) == (invalid, True), wrong.body


def test_the_largest_request_that_is_right_is_no_body_too_large() -> None:
    row = {"text": "😀" * limits.MAX_CHARACTERS}
    body = json.dumps({"rows": [row] * (limits.MAX_IN_ALL // limits.MAX_CHARACTERS)})  # \\ud83d\\ude00 for each
    assert len(body) > limits.MAX_IN_ALL * 12
    assert len(body) + limits.MAX_ROWS * limits.MAX_CHOICES * 10 < bodies.MAX_BYTES


def test_waiting_changes_hold_up_no_large_body(tmp_path: Path) -> None:
    """Each waits for the catalogue's lock, which is held while a model is opened or a registry is slow."""
    models = Catalogue()
    models.serve({"tiny": Source("tiny", folder=tiny.classifier(tmp_path / "tiny"))})
    body = json.dumps({"rows": [{"text": "犬" * 9000}] * 3}).encode()
    assert len(body) > bodies.LARGE
    with served.serving(models) as address, ThreadPoolExecutor(20) as pool:
        with models._lock:
            waiting = [pool.submit(raw_http.post, address, "/models/tiny/refresh", b"") for _ in range(20)]
            time.sleep(0.5)
            assert raw_http.post(address, "/predict", body).status == 200
            assert not any(change.done() for change in waiting)
        assert {change.result().status for change in waiting} == {200}


def test_head_answers_as_get_without_a_body(tmp_path: Path) -> None:
    models = served.catalogue({"tiny": tiny.classifier(tmp_path / "tiny")})
    with (
        served.serving(models, log_format="json") as address,
        closing(http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)) as line,
    ):
        for path, status in (("/", 200), ("/health", 200), ("/models/tiny", 200), ("/predict", 405), ("/nothing", 404)):
            line.request("HEAD", path)
            head = line.getresponse()
            assert (head.status, head.read()) == (status, b"")
            line.request("GET", path)
            get = line.getresponse()
            assert len(get.read()) == int(head.headers["content-length"])
            assert (get.status, get.headers["content-type"]) == (status, head.headers["content-type"])
        counts = raw_http.get(address, "/metrics").body.decode()
    assert re.search(r'bertline_requests_total{[^}]*route="/health"[^}]*} 2\.0', counts)


def test_a_slash_at_the_end_is_another_path_and_no_redirect(tmp_path: Path) -> None:
    """A redirect names a scheme, which is wrong behind a proxy that ends TLS: texts and keys would go unencrypted."""
    with served.serving(served.catalogue({"tiny": tiny.classifier(tmp_path / "tiny")})) as address:
        answer = raw_http.post(address, "/predict/tiny/", b'{"rows": [{"text": "a"}]}')
        assert (answer.status, "location" in answer.headers) == (404, False)
        listed = [raw_http.get(address, f"/api/2.0/endpoints{slash}") for slash in ("", "/")]
        assert [entry.status for entry in listed] == [200, 200]
        assert listed[0].body == listed[1].body


def test_an_idle_connection_outlives_the_time_for_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.3)
    models = served.catalogue({"tiny": tiny.classifier(tmp_path / "tiny")})
    with (
        served.serving(models) as address,
        closing(http.client.HTTPConnection(address.removeprefix("http://"), timeout=30)) as line,
    ):
        for _ in range(2):
            line.request("GET", "/health")
            assert line.getresponse().read()
            time.sleep(1)


def early_answer(address: str, sent: bytes) -> raw_http.Answer:
    """The first answer to what arrives in few reads, from a service that closes the connection then."""
    with socket.create_connection(("127.0.0.1", urlsplit(address).port), 30) as line:
        line.sendall(sent)
        answer = http.client.HTTPResponse(line)
        answer.begin()
        return raw_http.Answer(answer.status, {name.lower(): text for name, text in answer.getheaders()}, answer.read())


def test_what_is_answered_before_a_route_has_a_limit_and_an_id(tmp_path: Path) -> None:
    start = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Request-Id: one\r\n"
    with served.serving(served.catalogue({"tiny": tiny.classifier(tmp_path / "tiny")})) as address:
        for sent, status, name in (
            (start + b"X: " + b"x" * 60_000 + b"\r\n\r\n", 200, "one"),
            (start + b"".join(b"X%d: %b\r\n" % (i, b"x" * 1000) for i in range(80)) + b"\r\n", 431, "one"),
            (start + b"X: " + b"x" * 80_000 + b"\r\n\r\n", 431, "one"),
            (b"GET /" + b"x" * 70_000 + start[11:] + b"\r\n", 431, "one"),
            (start + b"Upgrade: h2c\r\nX: " + b"x" * 80_000 + b"\r\n\r\n", 431, "one"),
            (start.replace(b"\r", b"") + b"\n", 400, ""),
            (b"nothing\r\n\r\n", 400, ""),
        ):
            answer = early_answer(address, sent)
            assert answer.status == status, sent[:80]
            assert answer.headers["x-request-id"] == name or (not name and len(answer.headers["x-request-id"]) == 32)
            if status == 431:
                assert answer.json() == {"detail": "the request's line and headers have more than 65,536 bytes"}


def test_the_page_needs_no_other_host() -> None:
    assert re.findall(r"(?:https?:)?//\w", docs_page.HTML) == []
    assert "default-src 'none'" in docs_page.response().headers["Content-Security-Policy"]
    api = app.application(Catalogue())
    assert (api.docs_url, api.redoc_url) == (None, None)


def test_openapi_has_every_response_that_is_sent() -> None:
    spec = app.application(Catalogue()).openapi()
    for path in ("/predict", "/predict/{name}"):
        responses = spec["paths"][path]["post"]["responses"]
        assert " ".join(responses) == "200 400 401 403 404 408 413 422 429 500 501 503 504"
        assert responses["422"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Problem"}
        body = spec["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
        assert body == {"$ref": "#/components/schemas/Request"}
    assert spec["components"]["schemas"]["Problem"]["properties"]["detail"]["type"] == "string"
    assert "rows" in spec["components"]["schemas"]["Request"]["properties"]
    assert "HTTPValidationError" not in spec["components"]["schemas"]
