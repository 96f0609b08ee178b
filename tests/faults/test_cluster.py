"""Two Ray nodes on this machine, started as in a cluster: if one dies, training continues on the other."""

import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch

from tests.support import fits, ray_nodes
from tests.support.places import ROOT

pytestmark = pytest.mark.slow


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
    for name, value in ray_nodes.SETTINGS.items():
        monkeypatch.setenv(name, value)
    with ray_nodes.started() as cluster:
        cluster.second()
        monkeypatch.setenv("RAY_ADDRESS", cluster.address)
        yield cluster.nodes
        ray.shutdown()


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
        ray_nodes.kill(nodes[1])

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
