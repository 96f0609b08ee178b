"""How long a connection is kept that is idle, unread or stuck, and which one makes room where there are too many."""

import asyncio
import re
import socket
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from flows.local import http_service
from pipelines.serving import connections
from pipelines.serving.certificates import Certificate
from tests.support import certificates, servers
from tests.support.attacked import read
from tests.support.places import ROOT

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 50_000_000  # bytes of an answer, far more than the buffers of two sockets


@contextmanager
def listening(
    app: Any, certificate: Certificate | None = None
) -> Iterator[tuple[uvicorn.Server, threading.Thread, Any]]:
    """The server of an application, its thread, and its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = http_service.http_server(app, certificate, lifespan="off")
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        servers.wait_until(lambda: server.started, "the server starts", 60, 0.01)
        yield server, thread, listener.getsockname()
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@contextmanager
def serving(app: Any) -> Iterator[tuple[uvicorn.Server, threading.Thread, socket.socket]]:
    """The server of an application, its thread, and a connection to it."""
    with listening(app) as (server, thread, address), socket.create_connection(address, 60) as line:
        yield server, thread, line


def answers(size: int) -> Any:
    """An application that answers each request with so many bytes."""

    async def app(_scope: Any, _receive: Any, send: Any) -> None:
        headers = [(b"content-length", str(size).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": bytes(size)})

    return app


def test_an_idle_connection_is_closed_after_its_time_and_not_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1.0)
    with serving(answers(2)) as (_, _, line):
        for _ in range(2):
            line.sendall(REQUEST)
            answer = read(line)
            start = time.monotonic()
            assert answer
            assert answer.status == 200
            time.sleep(0.5)
        assert line.recv(10) == b""
        assert 0.9 < time.monotonic() - start < connections.HEAD_SECONDS


def test_a_client_that_does_not_read_its_answer_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "READ_SECONDS", 1.0)
    with serving(answers(LARGE)) as (server, _, line):
        line.sendall(REQUEST)
        servers.wait_until(lambda: server.server_state.total_requests, "the request is read", 30, 0.01)
        start = time.monotonic()
        servers.wait_until(lambda: not server.server_state.connections, "the connection is cut", 30, 0.01)
        assert 0.9 < time.monotonic() - start < connections.HEAD_SECONDS


def test_a_stuck_application_is_cut_when_the_service_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_service, "DRAIN_SECONDS", 1)
    begun = threading.Event()

    async def stuck(_scope: Any, _receive: Any, _send: Any) -> None:
        begun.set()
        await asyncio.sleep(600)

    with serving(stuck) as (server, thread, line):
        line.sendall(REQUEST)
        assert begun.wait(30)
        start = time.monotonic()
        server.should_exit = True
        thread.join(60)
        assert not thread.is_alive()
        assert 0.9 < time.monotonic() - start < 10
        answer = read(line)
        assert answer is None or answer.status == 500


@pytest.mark.parametrize("encrypted", [False, True])
def test_the_connection_that_is_silent_longest_makes_room(
    encrypted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With TLS too, after the handshake."""
    monkeypatch.setattr(connections, "MOST", 20)
    monkeypatch.setattr(connections, "HEAD_SECONDS", 300.0)  # or they would be closed for their silence alone
    files = certificates.written(tmp_path)
    context = ssl.create_default_context(cafile=files[0])
    with listening(answers(2), Certificate(*files) if encrypted else None) as (_, _, address), ExitStack() as stack:

        def connect() -> socket.socket:
            line = stack.enter_context(socket.create_connection(address, 60))
            return stack.enter_context(context.wrap_socket(line, server_hostname="127.0.0.1")) if encrypted else line

        def is_answered(line: socket.socket) -> bool:
            line.sendall(REQUEST)
            answer = read(line)
            return answer is not None and answer.status == 200

        lines = [connect() for _ in range(connections.most())]
        assert all(is_answered(line) for line in [*lines, lines[0]]), "so the second is silent longest"
        more = [connect() for _ in range(3)]
        assert all(is_answered(line) for line in more)
        assert [line.recv(10) for line in lines[1:4]] == [b""] * 3
        assert all(is_answered(line) for line in (lines[0], *lines[4:])), "a new one costs one"


def test_the_page_has_these_times() -> None:
    page = re.sub(r"\s+", " ", (ROOT / "docs/serving.md").read_text(encoding="utf-8"))
    assert connections.IDLE_SECONDS > 60, "proxies keep connections for 60 s, and one that closes first has a 502"
    assert f"An idle connection is kept for {connections.IDLE_SECONDS:g} seconds" in page
    assert f"Beyond {connections.MOST:,} connections" in page
    assert f"within {http_service.DRAIN_SECONDS} seconds" in page
