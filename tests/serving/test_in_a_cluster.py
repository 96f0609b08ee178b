"""bertline serve in a Ray cluster that others use: they stay as they are, and only one model is served at a time."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import mlflow
import pytest

from flows.serve import ask, free_port
from pipelines.core.errors import InputError
from pipelines.tracking import ledger, registry
from tests.support import ray_nodes, tiny
from tests.support.places import CODE, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
OTHER = """
import sys
from ray import serve

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Other:
    def __call__(self, request):
        return "here"

serve.start(http_options={"port": int(sys.argv[1])})
serve.run(Other.bind(), name="other", route_prefix="/other")
"""


@pytest.fixture
def cluster(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ray_nodes.Cluster]:
    """A head, and a champion."""
    (checkout / "params.yaml").write_text(tiny.PARAMS)
    version = registry.register("tiny", tiny.classifier(checkout / "model"), CODE, "single", {"text": "犬"}, {})
    ledger.append("tiny", ledger.read("tiny"), "promote", version.version, "a test")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    for name, value in ray_nodes.SETTINGS.items():
        monkeypatch.setenv(name, value)
    with ray_nodes.started() as found:
        monkeypatch.setenv("RAY_ADDRESS", found.address)
        yield found
    mlflow.set_tracking_uri(None)


@contextmanager
def served(*arguments: str) -> Iterator[str]:
    """`bertline serve`; yields the address that it prints, and ends it as Ctrl-C does."""
    command = [sys.executable, "-m", "flows.cli", "serve", "tiny", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        try:
            said = process.stdout.readline()
            assert said.startswith("tiny answers at http://"), said
            yield said.split()[3].removesuffix("/predict,")
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)


def test_applications_of_others_stay(cluster: ray_nodes.Cluster) -> None:
    port = free_port()
    subprocess.run([sys.executable, "-c", OTHER, str(port)], check=True)
    with served("--port", str(free_port())) as address:
        assert address == f"http://127.0.0.1:{port}", "Serve has one proxy, which goes on where it does"
        assert len(ask(address, "/predict", {"rows": [{"text": "犬"}]})["predictions"]) == 1
        second = [sys.executable, "-m", "flows.cli", "serve", "tiny", "--port", str(free_port())]
        done = subprocess.run(second, check=False, capture_output=True, text=True)
        assert done.returncode == 1
        assert done.stderr.endswith("a model is served in this cluster already; stop it first\n")
        assert len(ask(address, "/predict", {"rows": [{"text": "犬"}]})["predictions"]) == 1
    with urlopen(f"{address}/other", timeout=60) as answer:
        assert answer.read() == b"here"
    with pytest.raises(InputError, match="404"):
        ask(address, "/predict", {"rows": [{"text": "犬"}]})


def test_a_cluster_without_serve_has_none_afterwards(cluster: ray_nodes.Cluster) -> None:
    port = free_port()
    with served("--port", str(port)) as address:
        assert address == f"http://127.0.0.1:{port}"
        assert len(ask(address, "/predict", {"rows": [{"text": "犬"}]})["predictions"]) == 1
    assert not ray_nodes.listens("127.0.0.1", port)
    assert all(node.poll() is None for node in cluster.nodes)
    assert ray_nodes.listens("127.0.0.1", cluster.port)
