"""HAProxy with the configuration that Ray Serve writes: it listens at one address, and speaks the protocols."""

import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipelines.core import plugins
from pipelines.core.ports import free_port
from pipelines.serving import haproxy, ray_proxy
from pipelines.serving.app import PROTOCOLS
from pipelines.serving.refusals import Refusals
from tests.support import endings, proxied, raw_http, servers


@pytest.fixture
def short() -> Iterator[Path]:
    with proxied.place() as folder:
        yield folder


def test_it_listens_at_the_services_address_alone_and_speaks_each_protocol(short: Path) -> None:
    port = free_port()
    config = proxied.written(short, port, [free_port()])
    assert config.read_text().count("\n    bind ") + config.read_text().count("\n  bind ") == 3
    with proxied.running(config, port) as process:
        assert process.name() == "haproxy"
        listeners = [c.laddr for c in process.net_connections("inet") if c.status == psutil.CONN_LISTEN]
        assert [tuple(each) for each in listeners] == [("127.0.0.1", port)]
        assert (short / "admin.sock").stat().st_mode & 0o077 == 0, "other users may command it"
        for path, body in bodies().items():
            answer = raw_http.post(f"http://127.0.0.1:{port}", path, b"{}")
            assert answer.status == 503
            assert answer.headers["retry-after"] == "1"
            assert answer.headers["content-type"] == "application/json"
            assert answer.json() == body, path
        with socket.create_connection(("127.0.0.1", port), 60) as wrong:
            wrong.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n")
            assert wrong.makefile("rb").read().startswith(b"HTTP/1.1 400 ")


def bodies() -> dict[str, Any]:
    """The bodies by which each protocol says that no replica answers, by one of its paths."""
    protocols = [plugins.load(PROTOCOLS, name) for name in plugins.names(PROTOCOLS)]
    shapes = {prefix: protocol.refusal for protocol in protocols for prefix in getattr(protocol, "PREFIXES", ())}
    assert len(shapes) > 5
    refusals, problem = Refusals(shapes), (503, haproxy.UNREACHABLE, {})
    paths = [*(f"{prefix}/a" for prefix in shapes), "/invocations", "/v2", "/", "/other"]
    return {path: json.loads(refusals.response({"path": path}, *problem).body) for path in paths}


class Replica(BaseHTTPRequestHandler):
    """A replica that answers with the headers that it got."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path == "/-/healthz":
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = json.dumps({name.lower(): value for name, value in self.headers.items()}).encode()
        self.send_response(429)
        for name, value in {"Content-Length": str(len(body)), "Retry-After": "7", "X-Request-Id": "one"}.items():
            self.send_header(name, value)
        self.send_header("X-Request-Id", "two")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """No line."""


def test_refusals_pass_and_a_deadline_reaches_the_application_alone(short: Path) -> None:
    replica = HTTPServer(("127.0.0.1", 0), Replica)
    thread = threading.Thread(target=replica.serve_forever)
    thread.start()
    port = free_port()
    try:
        with proxied.running(proxied.written(short, port, [replica.server_port]), port):
            headers = {"x-request-timeout-seconds": "0.5", "Host": "one.example"}
            answer = raw_http.request("GET", f"http://127.0.0.1:{port}", "/models", b"", headers)
    finally:
        replica.shutdown()
        thread.join()
        replica.server_close()
    assert (answer.status, answer.headers["retry-after"], answer.headers["x-request-id"]) == (429, "7", "two")
    heard = answer.json()
    assert "x-request-timeout-seconds" not in heard
    assert (heard[haproxy.DEADLINE], heard["x-request-disconnect-disabled"], heard["host"]) == (
        "0.5",
        "?1",
        "one.example",
    )


STARTER = """
import subprocess, sys, time
print(subprocess.Popen(sys.argv[1:], stderr=subprocess.DEVNULL).pid, flush=True)
time.sleep(600)
"""


def test_it_ends_with_the_process_that_started_it(short: Path) -> None:
    port = free_port()
    words = [ray_proxy.command(), "-db", "-f", str(proxied.written(short, port, [free_port()]))]
    with subprocess.Popen([sys.executable, "-c", STARTER, *words], stdout=subprocess.PIPE, text=True) as starter:
        assert starter.stdout
        started = psutil.Process(int(starter.stdout.readline()))
        servers.wait_until(lambda: proxied.listens(port), "HAProxy listens", 30)
        starter.kill()
    assert endings.alive_after([started], 20) == []


def test_a_section_that_listens_and_is_not_known_is_refused(tmp_path: Path) -> None:
    config = "global\n    maxconn 1\nfrontend news\n    bind *:1\n"
    with pytest.raises(ValueError, match="the section `frontend news` listens at \\*:1"):
        haproxy.rewritten(config, tmp_path)


def test_the_address_of_the_service_may_be_another(tmp_path: Path) -> None:
    config = "frontend http_frontend\n    bind 127.0.0.1:1\nlisten stats\n  bind *:2\n"
    rewritten = haproxy.rewritten(config, tmp_path, "ipv6@::1:8000")
    assert [line for line in rewritten.splitlines() if "bind" in line] == ["    bind ipv6@::1:8000"]
