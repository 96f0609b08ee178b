"""How long a connection is kept that is idle, whose answer nobody reads, or whose application is stuck at the end."""

import asyncio
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import uvicorn

from flows.local import http_service
from pipelines.serving import connections
from tests.support import servers
from tests.support.attacked import read
from tests.support.places import ROOT

REQUEST = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
LARGE = 50_000_000  # bytes of an answer, far more than the buffers of two sockets


@contextmanager
def serving(app: Any) -> Iterator[tuple[uvicorn.Server, threading.Thread, socket.socket]]:
    """The server of an application, its thread, and a connection to it."""
    port = http_service.free_port()
    server = http_service.http_server(app, port=port, lifespan="off")
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        servers.wait_until(lambda: server.started, "the server starts", 60, 0.01)
        with socket.create_connection(("127.0.0.1", port), 60) as line:
            yield server, thread, line
    finally:
        server.should_exit = True
        thread.join()


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


def test_the_page_has_these_times() -> None:
    page = re.sub(r"\s+", " ", (ROOT / "docs/serving.md").read_text(encoding="utf-8"))
    assert connections.IDLE_SECONDS > 60, "proxies keep connections for 60 s, and one that closes first has a 502"
    assert f"An idle connection is kept for {connections.IDLE_SECONDS:g} seconds" in page
    assert f"within {http_service.DRAIN_SECONDS} seconds" in page
