"""Requests that a service has begun to read when it is told to end: all are answered, and no process is left."""

import http.client
import json
import os
import signal
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil

from tests.support import endings
from tests.support.champion import TEXTS
from tests.support.forked import Forked


def check_sigterm(
    process: Forked, port: int, replicas: bool, trusted: Path | None = None, by: signal.Signals = signal.SIGTERM
) -> None:
    """End `bertline serve tiny` by SIGTERM while three clients send; with replicas its proxy still listens then.

    With TLS, `trusted` is the service's certificate. `by` is a signal that ends as SIGTERM does.
    """
    family = psutil.Process(process.pid).children(recursive=True)
    with ExitStack() as sockets:
        requests = [sockets.enter_context(_half_sent(port, trusted)) for _ in range(3)]
        os.kill(process.pid, by)
        if not replicas:  # in Ray, a proxy refuses new requests
            process.until(lambda: not _is_open(port))
        assert [len(finish()["predictions"]) for finish in requests] == [len(TEXTS)] * 3
    assert process.wait() == 0
    assert not [line for line in process.said().splitlines() if not line.startswith("tiny version 1 opened in")]
    assert len(family) > (3 if replicas else -1)
    assert endings.alive_after(family, 20) == []


@contextmanager
def _half_sent(port: int, trusted: Path | None) -> Iterator[Callable[[], dict[str, Any]]]:
    """A request that the service has begun to read; yields a function that sends the rest and returns the answer."""
    body = json.dumps({"rows": [{"text": text} for text in TEXTS]}).encode()
    head = f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: {len(body)}\r\n"
    with ExitStack() as open_sockets:
        connection = open_sockets.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60))
        if trusted:
            context = ssl.create_default_context(cafile=trusted)
            connection = open_sockets.enter_context(context.wrap_socket(connection, server_hostname="127.0.0.1"))
        connection.sendall(f"{head}Content-Type: application/json\r\nExpect: 100-continue\r\n\r\n".encode())
        begun = b""
        while not begun.endswith(b"\r\n\r\n"):  # this is sent when the application asks for the body
            part = connection.recv(1)
            assert part, begun
            begun += part
        assert begun.startswith(b"HTTP/1.1 100 "), begun
        connection.sendall(body[:9])

        def finish() -> dict[str, Any]:
            connection.sendall(body[9:])
            response = http.client.HTTPResponse(connection)
            response.begin()
            answer: dict[str, Any] = json.loads(response.read())
            return answer

        yield finish


def _is_open(port: int) -> bool:
    with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=10):
        return True
    return False
