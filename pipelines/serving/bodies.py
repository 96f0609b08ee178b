"""Limits for a request's body: its size, the time to send it, and no duplicate key in an object.

The whole body is read before its rows wait for their turn (`admission.FairQueue`).
"""

import asyncio
import json
from contextlib import suppress
from typing import Any

from pipelines.core.errors import InputError
from pipelines.serving.refusals import Refusals

MAX_BYTES = 4_000_000  # enough for limits.MAX_IN_ALL characters, each escaped as two \\uXXXX, and the JSON around them
SECONDS = 10  # to send a body; a slow client holds one of the service's connections meanwhile
LINGER_SECONDS, LINGER_BYTES = 2, 64_000_000  # to read, and forget, of a body that is too large
KEY = 40  # the most characters of a key in an error, since the key may be long
LARGE = 100_000  # bytes that take milliseconds to parse; other requests go on meanwhile
LENGTH = b"content-length"


class _TooLargeError(Exception):
    """The body, or its Content-Length, is larger than the limit; `more` of it may follow."""

    def __init__(self, more: bool) -> None:
        self.more = more


class RepeatedKeyError(InputError):
    """A key occurs twice in one object."""


class LimitedBodies:
    """An ASGI middleware that refuses bodies: too large (413), too slow (408), or with a duplicate key (422)."""

    def __init__(
        self, app: Any, max_bytes: int = MAX_BYTES, seconds: float = SECONDS, refusals: Refusals | None = None
    ) -> None:
        self.app, self.max_bytes, self.seconds = app, max_bytes, seconds
        self.refusals = refusals or Refusals()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            async with asyncio.timeout(self.seconds):
                body = await self.whole(scope, receive)
            if body and len(body) > LARGE:
                await asyncio.to_thread(check_keys, body)
            else:
                check_keys(body or b"")
        except TimeoutError:
            status, why = 408, f"the body was not sent within {self.seconds:g} s"
        except _TooLargeError as error:
            if error.more:
                await self._discard(scope, receive)
            status, why = 413, f"the body has more than {self.max_bytes:,} bytes; `bertline score` has no limit"
        except RepeatedKeyError as error:
            status, why = 422, str(error)
        else:
            if body is not None:
                await self.app(scope, _sent_before(body, receive), send)
            return
        await self.refusals.response(scope, status, why, {"Connection": "close"})(scope, receive, send)

    async def _discard(self, scope: Any, receive: Any) -> None:
        """Read on for a while, as a client that still sends when the connection is closed never sees the answer."""
        if any(name.lower() == b"expect" for name, _ in scope["headers"]):  # it has sent nothing yet, and waits
            return
        size = 0
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while size < LINGER_BYTES:
                    message = await receive()
                    size += len(message.get("body", b""))
                    if message["type"] == "http.disconnect" or not message.get("more_body", False):
                        return

    async def whole(self, scope: Any, receive: Any) -> bytes | None:
        """Read the whole body; None if the client has disconnected. Raises _TooLargeError."""
        for name, value in scope["headers"]:
            if name.lower() == LENGTH and (not value.isdigit() or int(value[:20]) > self.max_bytes):
                raise _TooLargeError(more=True)
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self.max_bytes:
                raise _TooLargeError(message.get("more_body", False))
            if not message.get("more_body", False):
                return bytes(body)


def check_keys(body: bytes) -> None:
    """Raise RepeatedKeyError for a duplicate key. The application itself refuses invalid JSON."""
    try:
        json.loads(body, object_pairs_hook=_distinct)
    except RepeatedKeyError:
        raise
    except (ValueError, RecursionError):
        pass


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise RepeatedKeyError(f"the body: the key {name[:KEY]!r} occurs twice in one object; send it once")
            seen.add(name)


def _sent_before(body: bytes, receive: Any) -> Any:
    """An ASGI `receive` that returns the whole body first."""
    left = [body]

    async def again() -> Any:
        return {"type": "http.request", "body": left.pop(), "more_body": False} if left else await receive()

    return again
