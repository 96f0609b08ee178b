"""Limits of connections, below the application: their number, and what a slow client may hold of the service.

uvicorn limits neither the size of a request's headers, nor the time for them, nor the time to read an answer.
"""

import asyncio
import json
import resource
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol
from weakref import WeakKeyDictionary

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

from pipelines.serving import request_log

IDLE_SECONDS = 75.0  # between two requests; proxies keep connections for 60 s, and one that closes first has a 502
HEAD_SECONDS = 10.0  # from the start of a connection, or a request's first byte, to the end of its headers
HEAD_BYTES = 65_536  # of a request's line and headers; and of what is neither headers nor body, such as trailers
READ_SECONDS = 60.0  # for a client to read on, when its answer fills the buffers
LARGE_HEAD = f"the request's line and headers have more than {HEAD_BYTES:,} bytes"
MOST = 1000  # connections


def most() -> int:
    """The most connections: half of the files that this process may open, as models and logs need some too."""
    return max(16, min(MOST, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2))


class Silent(Protocol):
    """A connection whose client has to send something."""

    def close(self) -> None: ...


_WAITING: WeakKeyDictionary[ServerState, dict[Silent, None]] = WeakKeyDictionary()


def waiting(server: ServerState) -> dict[Silent, None]:
    """The connections of a server whose client has to send something, the one that has waited longest first."""
    return _WAITING.setdefault(server, {})


def has_room(server: ServerState) -> bool:
    """Return whether a server may have the connections that it has; the one that is silent longest makes room."""
    if len(server.connections) <= most():
        return True
    silent = next(iter(waiting(server)), None)
    if silent:
        silent.close()
    return silent is not None


class Parser(httptools.HttpRequestParser):
    """A parser of requests. It stops behind the headers of one with `Upgrade`, as if this had no body."""

    rest = b""  # what it left unread when it stopped

    def feed_data(self, data: Any) -> None:
        try:
            super().feed_data(data)
        except httptools.HttpParserUpgrade as stop:
            self.rest = data[stop.args[0] :]


class Connection(HttpToolsProtocol):
    """One connection of uvicorn, with these limits.

    Where there are too many, the one whose client has been silent longest is closed for a new one, so that idle and
    slow clients keep nobody out.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.opened: Callable[[], None] | None = None  # called when it is made
        self.has_place = False  # one was made for it before its handshake
        self._head: asyncio.TimerHandle | None = None  # ends the time for the headers
        self._reading: asyncio.TimerHandle | None = None  # ends the time to read the answer
        self._bytes = 0  # of the headers so far; -1: they are complete
        self._is_large = False  # whether the headers have more than HEAD_BYTES
        self._framing = 0  # bytes since the last part of the body: sizes of chunks, and trailers
        self._complete = True  # whether the last request has arrived as a whole
        self._waiting = waiting(self.server_state)
        self._use_new_parser()

    def _use_new_parser(self) -> None:
        self.parser: Parser = Parser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as uvicorn has it
        self._offers = False  # whether the parser stopped, as the request offers another protocol

    @property
    def _busy(self) -> bool:
        """Return whether a request waits for its answer."""
        return self.cycle is not None and not self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        if self.opened:
            self.opened()
        super().connection_made(transport)
        if self.has_place or has_room(self.server_state):
            self._wait()
        else:
            self.refuse(503, "the service has too many connections; try again in 1 s", "Retry-After: 1\r\n")

    def connection_lost(self, exc: Exception | None) -> None:
        self._done_waiting()
        if self._reading:
            self._reading.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if self._bytes >= 0:
            self._bytes += len(data)
        elif not self._complete:
            self._framing += len(data)
        super().data_received(data)
        while self._offers:  # RFC 9110, 7.8: a server may ignore `Upgrade`, but it has to read the body
            data = self._head_without_offer() + self.parser.rest
            self._use_new_parser()
            super().data_received(data)
        if max(self._bytes, self._framing) <= HEAD_BYTES or self.transport.is_closing():
            return
        if self._busy or self._bytes <= HEAD_BYTES:  # an earlier request has no answer yet, or this one may have one
            self.transport.abort()
        else:
            self.refuse(431, LARGE_HEAD)

    def _head_without_offer(self) -> bytes:
        """The line and headers of the request as the parser read them, without `Upgrade`."""
        line = b"%b %b HTTP/%b\r\n" % (self.parser.get_method(), self.url, self.parser.get_http_version().encode())
        lines = (b"%b: %b\r\n" % header for header in self.headers if header[0] != b"upgrade")
        return line + b"".join(lines) + b"\r\n"

    def on_message_begin(self) -> None:
        self._bytes, self._framing, self._complete = max(self._bytes, 0), 0, False
        if not self._busy:
            self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        size = len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)
        self._is_large = size > HEAD_BYTES  # it may have arrived in few reads, together with its body
        if self._is_large:
            raise ValueError(LARGE_HEAD)  # the parser stops, and uvicorn calls send_400_response
        self._offers = self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT"
        if self._offers:
            return
        self._bytes = -1
        if self._head:
            self._head.cancel()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        self._framing = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if self._offers:
            return
        self._complete = True
        if self._busy:
            self._done_waiting()
        elif not self.transport.is_closing():  # the answer came before the end of the body
            self._bytes = 0
            self._wait(IDLE_SECONDS)
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if not self._busy and not self.transport.is_closing():
            self._bytes = 0 if self._complete else self._bytes
            self._wait(IDLE_SECONDS if self._complete else HEAD_SECONDS)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._reading = self.loop.call_later(READ_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._reading:
            self._reading.cancel()

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser does not read."""
        if not self._is_large:
            self.refuse(400, "the request is not valid HTTP/1.1")
        elif self._busy:  # an earlier request has no answer yet
            self.transport.abort()
        else:
            self.refuse(431, LARGE_HEAD)

    def refuse(self, status: int, why: str, headers: str = "") -> None:
        """Answer before a route is known, in the shape of the plain protocol, and close."""
        body = json.dumps({"detail": why}).encode()
        name = request_log.request_id([] if self._complete else self.headers)
        head = (
            f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n{headers}x-request-id: {name}\r\nConnection: close\r\n\r\n"
        )
        self._done_waiting()
        self.transport.write(head.encode() + body)
        self.transport.close()

    def close(self) -> None:
        """Close the connection without an answer."""
        self._done_waiting()
        self.transport.close()

    def _wait(self, seconds: float = 0.0) -> None:
        """Note that the client has to send a request now, within so many seconds, by default HEAD_SECONDS."""
        self._done_waiting()
        self._waiting[self] = None
        self._head = self.loop.call_later(seconds or HEAD_SECONDS, self._late)

    def _done_waiting(self) -> None:
        self._waiting.pop(self, None)
        if self._head:
            self._head.cancel()

    def _late(self) -> None:
        if self._bytes > 0 and not self.transport.is_closing():
            self.refuse(408, f"the request's headers were not sent within {HEAD_SECONDS:g} s")
        else:
            self.close()
