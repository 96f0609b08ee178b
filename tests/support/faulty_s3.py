"""S3 on a thread of the test (moto), and a proxy before it that fails, stalls, cuts answers or loses them."""

import http.client
import logging
import random
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from pipelines.core.s3_objects import Objects
from tests.support.servers import BUCKET, KEYS

# `cut` is a short answer whose length says so: it looks whole
FAULTS: tuple[str, ...] = ("fail", "stall", "short", "lost")
S3_SECONDS = 30.0  # a machine that stands still may take longer
STALL_SECONDS = 3.0  # longer than a test lets a client wait


class Proxy(ThreadingHTTPServer):
    """A proxy before S3; `share` of the requests meet one of the `faults`, drawn by a seed, and are counted.

    Where `only` is set, it is a part of the paths of requests that do.
    """

    daemon_threads = True

    def __init__(self, port: int) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind, self.share, self.faults, self.only = port, 0.0, FAULTS, ""
        self.rng, self.met, self.requests = random.Random(1), Counter[str](), list[tuple[str, str]]()
        self.stop = threading.Event()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def fault(self, path: str) -> str:
        """The fault of the next request; "" if it has none."""
        if self.only not in path or self.rng.random() >= self.share:
            return ""
        fault = self.rng.choice(self.faults)
        self.met[fault] += 1
        return fault

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing of clients that went away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Proxy

    def _any(self) -> None:
        fault, body = self.server.fault(self.path), self._body()
        self.server.requests.append((self.command, self.path))
        if fault == "stall":
            self.server.stop.wait(STALL_SECONDS)
        if fault == "fail":
            self._answer(503, [("Content-Length", "0")], b"")
            return
        if fault == "stall":
            self.close_connection = True
            return
        status, headers, content = self._forwarded(body)
        if fault == "lost":
            self.close_connection = True
            return
        if fault == "short" and len(content) > 1:
            content, self.close_connection = content[: len(content) // 2], True
        if fault == "cut":
            content = content[: len(content) // 2]
            headers = [
                *((name, value) for name, value in headers if name != "Content-Length"),
                ("Content-Length", str(len(content))),
            ]
        self._answer(status, headers, content)

    do_GET = do_PUT = do_HEAD = do_DELETE = _any  # noqa: N815 (http.server calls them by these names)

    def _body(self) -> bytes:
        """The body of the request, which may come in chunks."""
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _forwarded(self, body: bytes) -> tuple[int, list[tuple[str, str]], bytes]:
        headers = {name: value for name, value in self.headers.items() if name.lower() not in ("expect",)}
        # it is closed where S3 is late too: http.server takes a timeout for the end of its own client
        with closing(http.client.HTTPConnection("127.0.0.1", self.server.behind, timeout=S3_SECONDS)) as connection:
            connection.request(self.command, self.path, body, headers)
            answer = connection.getresponse()
            content = answer.read()
        return answer.status, answer.getheaders(), content

    def _answer(self, status: int, headers: list[tuple[str, str]], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers:
            if name.lower() not in ("connection", "transfer-encoding"):
                self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


@contextmanager
def running() -> Iterator[Proxy]:
    """S3 with the bucket BUCKET behind a proxy without faults yet; both end with the block."""
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # Prefect's handlers would print a line for each request
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    try:
        port = server.get_host_and_port()[1]
        with Proxy(port) as proxy:
            thread = threading.Thread(target=proxy.serve_forever, args=(0.05,), daemon=True)
            thread.start()
            try:
                client(proxy).create_bucket(Bucket=BUCKET)
                yield proxy
            finally:
                proxy.stop.set()
                proxy.shutdown()
                thread.join()
    finally:
        server.stop()


@contextmanager
def emptied(proxy: Proxy, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """The proxy without faults, and the bucket behind it without objects; the environment names them."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": proxy.address}.items():
        monkeypatch.setenv(name, value)
    objects = Objects(BUCKET)
    for key in objects.listed(""):
        objects.remove(key)
    proxy.share, proxy.faults, proxy.only = 0.0, FAULTS, ""
    proxy.requests.clear()
    proxy.met.clear()
    yield proxy
    proxy.share = 0.0


def client(proxy: Proxy) -> Any:
    """A client of S3 itself, without the proxy."""
    return boto3.client(
        "s3",
        endpoint_url=f"http://127.0.0.1:{proxy.behind}",
        region_name=KEYS["AWS_DEFAULT_REGION"],
        aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
    )
