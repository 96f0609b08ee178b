"""`bertline serve` in a shared Ray cluster: other applications keep running, and only one model is served at a time."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest

from flows.local.http_service import ask
from pipelines.core.errors import InputError
from pipelines.core.ports import free_port
from pipelines.tracking import registry
from tests.support import forked, ray_nodes, tiny
from tests.support.forked import Forked
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
OTHER = """
import sys
from ray import serve

@serve.deployment(ray_actor_options={"num_cpus": 0})
class Other:
    def __call__(self, request):
        return "here"

serve.start(http_options={"port": int(sys.argv[1]), "host": sys.argv[2]})
serve.run(Other.bind(), name="other", route_prefix="/other")
"""


@pytest.fixture(scope="module")
def head() -> Iterator[ray_nodes.Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ray_nodes.SETTINGS.items():
            patch.setenv(name, value)
        with ray_nodes.started() as found:
            yield found


@pytest.fixture
def cluster(
    head: ray_nodes.Cluster, version: registry.Version, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> ray_nodes.Cluster:
    """A cluster with a head node, and a champion."""
    (checkout / "params.yaml").write_text(tiny.PARAMS)
    for name, value in ray_nodes.SETTINGS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RAY_ADDRESS", head.address)
    return head


def serve(port: int) -> AbstractContextManager[Forked]:
    return forked.started("flows.cli", "serve", "tiny", "--port", str(port))


@contextmanager
def served(port: int) -> Iterator[str]:
    """Run `bertline serve`; yields the address that it prints. At the end it is stopped as by Ctrl-C."""
    with serve(port) as process:
        process.until(lambda: "\n" in process.printed())
        said = process.printed()
        assert said.startswith("tiny answers at http://"), said
        yield said.split()[3].removesuffix("/predict/tiny")
        os.kill(process.pid, signal.SIGINT)
        process.wait()


@contextmanager
def another(port: int, host: str = "127.0.0.1") -> Iterator[None]:
    """Run another application, with Serve's proxy at this port. Serve ends with the block."""
    subprocess.run([sys.executable, "-c", OTHER, str(port), host], check=True)
    yield
    subprocess.run([sys.executable, "-c", "from ray import serve; serve.shutdown()"], check=True)


def test_applications_of_others_stay(cluster: ray_nodes.Cluster) -> None:
    port = free_port()
    with another(port):
        with served(free_port()) as address:
            assert address == f"http://127.0.0.1:{port}", "Serve has one proxy, which goes on where it does"
            assert len(ask(address, "/predict", {"rows": [{"text": "犬"}]})["predictions"]) == 1
            with serve(free_port()) as second:
                assert second.wait() == 1
            assert second.said().endswith("this cluster already serves a model; stop it first\n")
            assert len(ask(address, "/predict", {"rows": [{"text": "犬"}]})["predictions"]) == 1
        with urlopen(f"{address}/other", timeout=60) as answer:
            assert answer.read() == b"here"
        with pytest.raises(InputError, match="404"):
            ask(address, "/predict", {"rows": [{"text": "犬"}]})


def test_a_proxy_that_other_machines_reach_needs_keys(cluster: ray_nodes.Cluster) -> None:
    port = free_port()
    with another(port, "0.0.0.0"), serve(free_port()) as process:
        assert process.wait() == 2
        assert f"http://0.0.0.0:{port}, where Ray Serve runs in this cluster: other machines" in process.said()
        assert "name a file of keys with --keys, or add --open" in process.said()


def test_a_cluster_without_serve_has_none_afterwards(cluster: ray_nodes.Cluster) -> None:
    port = free_port()
    with served(port) as address:
        assert address == f"http://127.0.0.1:{port}"
        assert len(ask(address, "/predict", {"rows": [{"text": "犬"}]})["predictions"]) == 1
    assert not ray_nodes.listens("127.0.0.1", port)
    assert all(node.poll() is None for node in cluster.nodes)
    assert ray_nodes.listens("127.0.0.1", cluster.port)
