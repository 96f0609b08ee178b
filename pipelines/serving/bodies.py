"""Limits for the bodies of requests: their size, alone and together, the time to send one, and no duplicate key.

The whole body is read before its rows wait for their turn (`admission.FairQueue`).
"""

import asyncio
import json
from contextlib import suppress
from typing import Any

from pipelines.core.errors import InputError
from pipelines.serving import request_work
from pipelines.serving.refusals import Refusals

MAX_BYTES = 4_000_000  # enough for limits.MAX_IN_ALL characters, each escaped as two \\uXXXX, and the JSON around them
SECONDS = 10  # to send a body; a slow client holds one of the service's connections meanwhile
LINGER_SECONDS, LINGER_BYTES = 2, 64_000_000  # to read, and forget, of a body that is too large
HELD_BYTES = 64_000_000  # of all bodies that are read or answered at a time
SMALL = 64_000  # bytes of a body that need no room among those, so that large ones keep no small ones out
KEY = 40  # the most characters of a key in an error, since the key may be long
LARGE = 100_000  # bytes that take milliseconds to parse; other requests go on meanwhile
LENGTH = b"content-length"


class _RefusedError(Exception):
    """A body is refused; `more` of it may follow, `cause` is for the log where the status does not say it."""

    def __init__(self, status: int, why: str, more: bool = False, cause: str = "") -> None:
        self.status, self.why, self.more, self.cause = status, why, more, cause


class _Room:
    """The bytes that all bodies together may take, and those that one of them has taken."""

    def __init__(self, size: int) -> None:
        self.left = size

    def take(self, before: int, after: int) -> None:
        """Let a body grow. Raises _RefusedError if the others leave no room for it."""
        more = max(0, after - SMALL) - max(0, before - SMALL)
        if more > self.left:
            raise _RefusedError(
                429, "the service reads too many large requests; try again in 1 s", True, "large bodies"
            )
        self.left -= more

    def free(self, size: int) -> None:
        self.left += max(0, size - SMALL)


class RepeatedKeyError(InputError):
    """A key occurs twice in one object."""


class LimitedBodies:
    """An ASGI middleware that refuses bodies.

    They are too large (413) or too slow (408), are compressed (422, 501), have a duplicate key or too deep a nesting
    (422), or meet too many others (429).
    """

    def __init__(
        self, app: Any, max_bytes: int = MAX_BYTES, seconds: float = SECONDS, refusals: Refusals | None = None
    ) -> None:
        self.app, self.max_bytes, self.seconds = app, max_bytes, seconds
        self.refusals = refusals or Refusals()
        self.room = _Room(HELD_BYTES)
        self.parsing = asyncio.Semaphore(1)  # objects of a large body take twenty times its bytes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = bytearray()
        try:
            if await self._read(scope, receive, body):
                await self.app(scope, _sent_before(body, receive), send)
        except _RefusedError as error:
            self.room.free(len(body))
            body.clear()
            request_work.refuse(error.cause)
            if error.more:
                await self._discard(scope, receive)
            headers = {"Connection": "close"} | ({"Retry-After": "1"} if error.status == 429 else {})
            await self.refusals.response(scope, error.status, error.why, headers)(scope, receive, send)
        finally:
            self.room.free(len(body))

    async def _read(self, scope: Any, receive: Any, body: bytearray) -> bool:
        """Read a body into `body`, and check it. Returns False if the client has gone; raises _RefusedError."""
        if _codings(scope, b"content-encoding") - {b"", b"identity"}:
            raise _RefusedError(
                422, "the body is compressed; send it without Content-Encoding", True, "compressed body"
            )
        if _codings(scope, b"transfer-encoding") - {b"", b"chunked"}:  # RFC 9112, 6.1
            why = "the body is compressed, or coded otherwise; send it with no Transfer-Encoding but chunked"
            raise _RefusedError(501, why, True, "transfer coding")
        try:
            async with asyncio.timeout(self.seconds):
                there = await self._whole(scope, receive, body)
        except TimeoutError:
            raise _RefusedError(408, f"the body was not sent within {self.seconds:g} s") from None
        try:
            if len(body) > LARGE:
                async with self.parsing:
                    await asyncio.to_thread(check_keys, body)
            else:
                check_keys(body)
        except InputError as error:
            cause = "a key twice" if isinstance(error, RepeatedKeyError) else "deep nesting"
            raise _RefusedError(422, str(error), cause=cause) from None
        return there

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

    async def _whole(self, scope: Any, receive: Any, body: bytearray) -> bool:
        """Read the whole body; returns False if the client has disconnected. Raises _RefusedError."""
        why = f"the body has more than {self.max_bytes:,} bytes; `bertline score` has no limit"
        for name, value in scope["headers"]:
            if name.lower() == LENGTH and (not value.isdigit() or int(value[:20]) > self.max_bytes):
                raise _RefusedError(413, why, more=True)
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return False
            part, more = message.get("body", b""), message.get("more_body", False)
            if len(body) + len(part) > self.max_bytes:
                raise _RefusedError(413, why, more)
            self.room.take(len(body), len(body) + len(part))
            body += part
            if not more:
                return True


def _codings(scope: Any, name: bytes) -> set[bytes]:
    """The codings in the headers of this name."""
    values = (value for header, value in scope["headers"] if header.lower() == name)
    return {coding.strip().lower() for value in values for coding in value.split(b",")}


def check_keys(body: bytes | bytearray) -> None:
    """Raise InputError for a duplicate key, or for a nesting too deep to look. The application refuses invalid JSON."""
    try:
        _DISTINCT.decode(body.decode(json.detect_encoding(body), "surrogatepass"))
    except RepeatedKeyError:
        raise
    except RecursionError:
        raise InputError("the body is nested too deeply") from None
    except ValueError:
        pass


def _distinct(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) > 1 and len(dict(pairs)) < len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise RepeatedKeyError(f"the body: the key {name[:KEY]!r} occurs twice in one object; send it once")
            seen.add(name)


_DISTINCT = json.JSONDecoder(object_pairs_hook=_distinct)  # made once, as that takes longer than a small body


def _sent_before(body: bytearray, receive: Any) -> Any:
    """An ASGI `receive` that returns the whole body first."""
    left = [body]

    async def first() -> Any:
        return {"type": "http.request", "body": bytes(left.pop()), "more_body": False} if left else await receive()

    return first
