"""A line for each request on standard error: JSON for programs, text for people, never a text of the request."""

import os
import re
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import orjson

from pipelines.serving import request_work
from pipelines.serving.request_work import Work
from pipelines.serving.spans import Spans

JSON, TEXT, OFF = FORMATS = ("json", "text", "off")
HEADER = "x-request-id"
SANE = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:/+=@-]{0,127}")  # an id of the client that may stand in a log
# the reason of a refusal by its status, where nothing else was noted
CAUSES = {
    400: "invalid request", 401: "no valid key", 403: "no scope", 404: "no such path or model", 405: "wrong method",
    408: "slow body", 413: "large body", 415: "wrong media type", 422: "invalid request", 429: "busy",
    499: "client gone", 500: "failure", 501: "transfer coding", 503: "not ready", 504: "deadline",
}  # fmt: skip


class Logged:
    """An ASGI middleware that gives each request an id, returns it in `x-request-id`, and writes its line and span."""

    def __init__(
        self, app: Any, form: str = OFF, write: Callable[[str], object] | None = None, spans: Spans | None = None
    ) -> None:
        self.app, self.form, self.write, self.spans = app, form, write or _to_stderr, spans

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        name, start, status = request_id(scope["headers"]), time.perf_counter(), 499  # no answer was sent
        encoded = name.encode()

        async def named(message: Any) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", []), (b"x-request-id", encoded)]
            await send(message)

        if self.form == OFF and not self.spans:
            await self.app(scope, receive, named)
            return
        work, span = request_work.begin(), self.spans.begin(scope) if self.spans else None
        try:
            await self.app(scope, receive, named)
        except Exception:
            status = 500
            raise
        finally:
            entry = described(scope, name, status, work) | {"ms": round((time.perf_counter() - start) * 1000, 2)}
            if self.form != OFF:
                self.write(orjson.dumps(entry).decode() if self.form == JSON else line(entry))
            if self.spans:
                self.spans.end(span, entry)


def request_id(headers: list[tuple[bytes, bytes]]) -> str:
    """The id that the client sent, if it is one and plain; else a new one."""
    sent = [value for name, value in headers if name.lower() == b"x-request-id"]
    return sent[0].decode() if len(sent) == 1 and SANE.fullmatch(sent[0]) else os.urandom(16).hex()


def described(scope: Any, name: str, status: int, work: Work) -> dict[str, Any]:
    """The entry of a request. Its path is the pattern of the route, as a path may hold a text."""
    queued, ran = work.milliseconds()
    return {
        "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
        "request_id": name,
        "key": scope.get("state", {}).get("key", ""),
        "method": scope["method"],
        "path": getattr(scope.get("route"), "path", ""),  # empty for a path without a route, or before it
        "model": work.model,
        "version": work.version,
        "rows": work.rows,
        "tokens": work.tokens,
        "queue_ms": queued,
        "run_ms": ran,
        "status": status,
        "cause": work.cause or (CAUSES.get(status, "refused") if status >= 400 else ""),
    }


def line(entry: dict[str, Any]) -> str:
    """An entry for people, such as `12:30:01 200 POST /predict/{name} 5.1 ms: 2 rows of titles version 3`."""
    text = f"{entry['time'][11:19]} {entry['status']} {entry['method']} {entry['path'] or '-'} {entry['ms']:.1f} ms"
    details = [entry["cause"]] if entry["cause"] else []
    if entry["model"]:
        details.append(f"{entry['rows']} rows of {entry['model']} version {entry['version']}")
    if entry["run_ms"] is not None:
        details.append(f"{entry['tokens']} tokens, {entry['queue_ms']:.1f} ms in the queue")
    if entry["key"]:
        details.append(f"key {entry['key']}")
    return f"{text}: {', '.join(details)}" if details else text


def _to_stderr(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()
