"""Two Ray nodes on this machine, started as on a cluster: one of them dies, and training goes on with the other."""

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch

from flows.serve import free_port
from tests.support import fits
from tests.support.places import ROOT

pytestmark = pytest.mark.slow
RAY = [str(Path(sys.executable).parent / "ray"), "start", "--block", "--disable-usage-stats", "--num-cpus=1"]
SMALL = ["--object-store-memory=100000000", "--dashboard-agent-listen-port=0"]


def start(session: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A node, its files in the folder `session`; its processes are this one's children."""
    command = [*RAY, *SMALL, f"--temp-dir={session}", *arguments]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def kill(node: subprocess.Popen[bytes]) -> None:
    """The whole node at once, as when its power goes."""
    for process in [psutil.Process(node.pid), *psutil.Process(node.pid).children(recursive=True)]:
        process.kill()
    node.wait()


def wait_for_nodes(count: int) -> None:
    import ray

    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        if sum(node["Alive"] for node in ray.nodes()) == count:
            return
        time.sleep(0.2)
    raise TimeoutError(f"{ray.nodes()}")


@pytest.fixture
def nodes(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[subprocess.Popen[bytes]]]:
    import ray

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")  # a head would take up the token of an earlier Ray of this user
    monkeypatch.setenv("RAY_health_check_period_ms", "500")
    monkeypatch.setenv("RAY_health_check_failure_threshold", "3")
    port = free_port()
    session = tempfile.mkdtemp(prefix="ray", dir="/tmp")  # short: sockets lie in it
    found = [start(session, "--head", f"--port={port}", "--include-dashboard=false")]
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:  # the head listens
            if any(c.laddr and c.laddr.port == port and c.status == "LISTEN" for c in psutil.net_connections("tcp")):
                break
            time.sleep(0.2)
        # an address of its own, or the driver might join this node instead of the head
        found.append(start(session, f"--address=127.0.0.1:{port}", "--node-ip-address=127.0.0.2"))
        monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{port}")
        yield found
    finally:
        ray.shutdown()
        for node in found:
            if node.poll() is None:
                kill(node)
        shutil.rmtree(session)


def test_a_node_dies_and_training_ends_as_if_it_had_not(nodes: list[subprocess.Popen[bytes]], checkout: Path) -> None:
    from pipelines.training import workers as of_ray

    params = fits.params(epochs=3)
    unbroken, curve = fits.trained(checkout, 0, params)
    of_ray.start()
    wait_for_nodes(2)
    worlds: list[int] = []

    def watch() -> None:
        checkpoint = checkout / "state/checkpoints/finetune/w(1, 2)/fit-1.pt"
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline and not checkpoint.exists():
            time.sleep(0.02)
        worlds.append(len(workers(nodes)))
        kill(nodes[1])

    watcher = threading.Thread(target=watch)
    watcher.start()
    resumed, after = fits.trained(checkout, (1, 2), params, often=True)
    watcher.join()
    assert worlds == [2]
    assert len(after) == len(curve)
    assert after == pytest.approx(curve, abs=1e-4)
    assert all(torch.allclose(resumed[n], unbroken[n], atol=1e-4) for n in unbroken if unbroken[n].is_floating_point())


def workers(nodes: list[subprocess.Popen[bytes]]) -> list[int]:
    """Process ids of the training workers on these nodes."""
    every = [process for node in nodes for process in psutil.Process(node.pid).children(recursive=True)]
    return [process.pid for process in every if "RayTrainWorker" in " ".join(process.cmdline())]
