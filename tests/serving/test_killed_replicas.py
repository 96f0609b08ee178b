"""Three processes of the service behind HAProxy as Ray Serve configures it: two are killed under load."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import pytest

from flows.local.http_service import free_port
from pipelines.serving import ray_proxy
from tests.support import exported, proxied, raw_http, servers, tiny
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
CLIENTS, ROWS = 4, 64
SMALL = json.dumps({"rows": [{"text": "映画の公開日が決定"}] * ROWS}).encode()  # HAProxy can send it again
LARGE = json.dumps({"rows": [{"text": "映画の公開日が決定" * 20}] * ROWS}).encode()  # it exceeds HAProxy's buffer
CHECK = "    option httpchk GET /-/healthz\n    http-check expect status 200\n"  # a path of Ray Serve's own
BUFFER = 16_384  # bytes of a request that HAProxy keeps, with its headers


class Replica(NamedTuple):
    process: "subprocess.Popen[bytes]"
    port: int


@pytest.fixture
def replicas(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Replica]]:
    """Three processes that answer."""
    model = f"tiny={exported.models(tmp_path_factory) / 'single-onnx'}"
    (checkout / "params.yaml").write_text(tiny.PARAMS)
    started = []
    try:
        for port in (free_port(), free_port(), free_port()):
            words = [sys.executable, "-m", "flows.cli", "serve", model, "--port", str(port), "--log-format", "off"]
            with (checkout / "log").open("ab") as log:
                process = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=log, stderr=log)
            started.append(Replica(process, port))
        for replica in started:
            servers.wait_until(partial(proxied.listens, replica.port), (checkout / "log").read_text(), 200)
            assert raw_http.get(f"http://127.0.0.1:{replica.port}", "/health").status == 200
        yield started
    finally:
        for process, _ in started:
            process.kill()
            process.wait()


class Clients:
    """Clients that ask again as soon as they have an answer, each on one connection, until the block ends."""

    def __init__(self, port: int, body: bytes) -> None:
        self.port, self.body = port, body
        self.results: Counter[str] = Counter()  # statuses, and the names of errors
        self._end, self._lock = threading.Event(), threading.Lock()
        self._threads = [threading.Thread(target=self._ask) for _ in range(CLIENTS)]

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        for thread in self._threads:
            thread.join()

    def _ask(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        while not self._end.is_set():
            try:
                connection.request("POST", "/predict", self.body, {"Content-Type": "application/json"})
                answer = connection.getresponse()
                predictions = json.loads(answer.read()).get("predictions", ())
                result = f"{answer.status}" if answer.status != 200 or len(predictions) == ROWS else "cut"
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                result = type(error).__name__
            with self._lock:
                self.results[result] += 1
        connection.close()

    def wait_for(self, more: int) -> None:
        """Wait until so many more requests were answered."""
        wanted, deadline = self.results["200"] + more, time.monotonic() + 60
        while self.results["200"] < wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        assert self.results["200"] >= wanted, self.results


def test_a_killed_replica_costs_a_client_one_connection_at_most(replicas: list[Replica]) -> None:
    """HAProxy sends a small request again, unless the replica had not read it: then the client has to.

    In that case the kernel resets the connection, and HAProxy closes the client's without an answer.
    """
    assert len(SMALL) < BUFFER < len(LARGE)
    port = free_port()
    retry_on, retries = (ray_proxy.SETTINGS[f"RAY_SERVE_HAPROXY_{name}"] for name in ("RETRY_ON", "RETRIES"))
    with proxied.place() as place:
        ports = [replica.port for replica in replicas]
        config = proxied.written(place, port, ports, retry_on=retry_on, retries=int(retries))
        text = config.read_text()
        assert CHECK in text
        config.write_text(text.replace(CHECK, ""))
        with proxied.running(config, port):
            for replica, body in zip(replicas, (SMALL, LARGE), strict=False):
                with Clients(port, body) as clients:
                    clients.wait_for(5 * CLIENTS)
                    replica.process.kill()
                    clients.wait_for(10 * CLIENTS)
                failed = {result: count for result, count in clients.results.items() if result != "200"}
                assert sum(failed.values()) <= CLIENTS, failed
                assert body == LARGE or not failed.keys() - {"RemoteDisconnected", "ConnectionResetError"}, failed
