"""Requests that the HTTP service refuses before they reach a model."""

import asyncio
import json
import re
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError

from pipelines.serving import admission, app, bodies, docs_page, schemas


def refused(body: dict[str, Any]) -> str:
    """The error that a client gets for the body of its request."""
    with pytest.raises(ValidationError) as found:
        schemas.Request.model_validate(body)
    sent = asyncio.run(app._refused(None, RequestValidationError(found.value.errors())))
    assert sent.status_code == 422
    return str(json.loads(bytes(sent.body))["detail"])


def test_a_request_of_more_work_than_a_minute_s_is_refused() -> None:
    row = {"text": "犬" * schemas.MAX_CHARACTERS}
    assert len(schemas.Request.model_validate({"rows": [row] * 10}).rows) == 10
    assert refused({"rows": [row] * 11}).startswith("the body: 220000 characters in all rows; a request takes at most")
    assert "at most 64" in refused({"rows": [{"choices": ["犬"] * 65}]})


def test_no_text_is_repeated_and_of_an_unknown_key_a_line() -> None:
    assert refused({"rows": [{"txt" * 1000: "x"}]}) == f"rows.0.{('txt' * 14)[:40]}: Extra inputs are not permitted"
    assert refused({"rows": [{"text": 12}]}) == "rows.0.text: Input should be a valid string"


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


def test_requests_have_their_turn_and_those_beyond_are_told() -> None:
    now, most = [0], [0]

    async def slow(scope: Any, receive: Any, send: Any) -> None:
        now[0] += 1
        most[0] = max(most[0], now[0])
        await asyncio.sleep(0.01)
        now[0] -= 1
        await send({"type": "http.response.start", "status": 200})

    async def run() -> list[int]:
        turns, statuses = admission.Turns(slow, 2, 3), list[int]()

        async def send(message: dict[str, Any]) -> None:
            statuses.extend(message[key] for key in message if key == "status")

        one = [turns({"type": "http", "method": "POST"}, None, send) for _ in range(7)]
        await asyncio.gather(*one, turns({"type": "http", "method": "GET"}, None, send))
        await turns({"type": "http", "method": "POST"}, None, send)
        return statuses

    assert sorted(asyncio.run(run())) == [200] * 7 + [503] * 2
    assert most == [3], "two with a body, and the one without"


def test_the_largest_request_that_is_right_is_no_body_too_large() -> None:
    row = {"text": "😀" * schemas.MAX_CHARACTERS}
    body = json.dumps({"rows": [row] * (schemas.MAX_IN_ALL // schemas.MAX_CHARACTERS)})  # \\ud83d\\ude00 for each
    assert len(body) > schemas.MAX_IN_ALL * 12
    assert len(body) + schemas.MAX_ROWS * schemas.MAX_CHOICES * 10 < bodies.MAX_BYTES


def test_the_page_needs_no_other_host() -> None:
    assert re.findall(r"(?:https?:)?//\w", docs_page.HTML) == []
    assert "default-src 'none'" in docs_page.response().headers["Content-Security-Policy"]
    assert isinstance(app.api, FastAPI)
    assert (app.api.docs_url, app.api.redoc_url) == (None, None)


def test_openapi_says_what_is_sent() -> None:
    spec = app.api.openapi()
    told = spec["paths"]["/predict"]["post"]["responses"]
    assert set(told) == {"200", "400", "408", "413", "422", "500", "503"}
    assert told["422"]["content"]["application/json"]["schema"] == {"$ref": "#/components/schemas/Problem"}
    assert spec["components"]["schemas"]["Problem"]["properties"]["detail"]["type"] == "string"
    assert "HTTPValidationError" not in spec["components"]["schemas"]
