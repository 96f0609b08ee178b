"""Many clients at once, each with requests of all protocols: no error, the same answers, and memory that stays flat."""

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from pipelines.core.ports import free_port
from pipelines.serving.catalogue import Catalogue
from pipelines.serving.model_sources import Source
from tests.support import exported, proxied, raw_http, served, servers, tiny
from tests.support.places import ROOT

pytestmark = pytest.mark.slow
CLIENTS = 128
MINUTES = float(os.environ.get("BERTLINE_LOAD_MINUTES", "60"))  # of the soak test
WARM = 0.2  # of the time, before memory counts
GROWTH = 1.05  # the most that the median of memory may grow from the first half of the rest to the second
ROW = {"text": "映画の公開日が決定"}
# a request of each protocol, and a second size
BODIES: list[tuple[str, dict[str, Any]]] = [
    ("/predict/tiny", {"rows": [ROW], "scores": True}),
    ("/predict/tiny", {"rows": [{"text": "犬" * number} for number in range(1, 9)]}),
    ("/hf/tiny", {"inputs": ROW["text"]}),
    ("/invocations/tiny", {"dataframe_records": [ROW]}),
    ("/v2/models/tiny/infer", {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["犬"]}]}),
    ("/v1/embeddings", {"model": "encoder", "input": [ROW["text"]]}),
]


class Clients:
    """Clients in a closed loop, each on one connection, which take the bodies in turn from a place of their own."""

    def __init__(self, port: int, count: int) -> None:
        self.port, self.count = port, count
        self.results: Counter[str] = Counter()  # statuses and names of errors
        self.answers: dict[int, set[bytes]] = {number: set() for number in range(len(BODIES))}
        self._lock = threading.Lock()

    def run(self, requests: int, seconds: float = 0.0) -> None:
        """Let each client send so many requests, or go on for so many seconds."""
        until = time.monotonic() + seconds
        threads = [threading.Thread(target=self._ask, args=(n, requests, until)) for n in range(self.count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _ask(self, first: int, requests: int, until: float) -> None:
        connection, done = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60), 0
        while done < requests or time.monotonic() < until:
            number = (first + done) % len(BODIES)
            path, body = BODIES[number]
            try:
                connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
                answer = connection.getresponse()
                content, result = answer.read(), str(answer.status)
            except (OSError, http.client.HTTPException) as error:
                connection.close()
                content, result = b"", type(error).__name__
            done += 1
            with self._lock:
                self.results[result] += 1
                self.answers[number].add(content)
        connection.close()


def test_128_clients_of_all_protocols_get_the_answers_that_one_gets(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    models = Catalogue()
    folders = {"tiny": exported.models(tmp_path_factory) / "single-onnx", "encoder": tiny.encoder(tmp_path / "encoder")}
    models.serve({name: Source(name, folder=folder) for name, folder in folders.items()})
    with served.serving(models) as address:
        alone = [raw_http.post(address, path, raw_http.encoded(body)) for path, body in BODIES]
        clients = Clients(int(address.rpartition(":")[2]), CLIENTS)
        clients.run(requests=len(BODIES))
    assert clients.results == {"200": CLIENTS * len(BODIES)}
    for number, answer in enumerate(alone):
        path, _ = BODIES[number]
        if path != "/v1/embeddings":  # torch's last bits depend on the rows beside; an export's do not
            assert clients.answers[number] == {answer.body}, path


@pytest.mark.soak
def test_memory_stays_flat_under_an_hour_of_mixed_load(
    checkout: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    port, log = free_port(), checkout / "log"
    models = [f"tiny={exported.models(tmp_path_factory) / 'single-onnx'}", f"encoder={tiny.encoder(checkout / 'it')}"]
    words = [sys.executable, "-m", "flows.cli", "serve", *models, "--port", str(port), "--log-format", "off"]
    (checkout / "params.yaml").write_text(tiny.PARAMS)
    with log.open("wb") as output:
        service = subprocess.Popen(words, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=output, stderr=output)
    try:
        servers.wait_until(lambda: proxied.listens(port), "the service listens", 200)
        assert raw_http.get(f"http://127.0.0.1:{port}", "/health").status == 200, "it listens before it has opened all"
        clients, used = Clients(port, 8), []
        load = threading.Thread(target=clients.run, args=(1, 60 * MINUTES))
        load.start()
        while load.is_alive():
            used.append(psutil.Process(service.pid).memory_info().rss)
            load.join(1)
    finally:
        service.kill()
        service.wait()
    assert clients.results.keys() == {"200"}, clients.results
    assert clients.results.total() > 60 * MINUTES
    late = used[int(WARM * len(used)) :]
    first, second = (sorted(half)[len(half) // 2] for half in (late[: len(late) // 2], late[len(late) // 2 :]))
    assert second <= GROWTH * first, f"{first / 1e6:.0f} MB, then {second / 1e6:.0f} MB"
