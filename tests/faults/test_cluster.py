"""Two Ray nodes on this machine, started as in a cluster: if one dies, training continues on the other."""

import os
import shlex
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch
import yaml

from tests.support import fits, ray_nodes, servers
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


# each node has one CPU
STAGE = """
import ray
from pipelines.training import workers
workers.start()
work = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(lambda: ray.get_runtime_context().get_node_id())
print(len(set(ray.get([work.remote() for _ in range(8)]))), "nodes worked")
"""


def test_the_commands_of_the_page_make_a_cluster_with_a_token(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they are pasted, but for the port, what lets two nodes be on one machine, and the stage's work."""
    for name, value in (ray_nodes.SETTINGS | {"HOME": str(checkout), "PYTHONPATH": str(ROOT)}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PATH", os.pathsep.join([str(servers.BIN), os.environ["PATH"]]))
    (checkout / "stage.py").write_text(STAGE)
    command = f"{sys.executable} stage.py"
    stages = {"finetune": {"foreach": {"livedoor-full": {}}, "do": {"cmd": command, "deps": ["stage.py"]}}}
    (checkout / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    shell("dvc init --quiet --no-scm")

    with ray_nodes.started(head=False) as cluster:
        page = (ROOT / "docs/cluster.md").read_text().replace("HEAD", "127.0.0.1").replace("6379", str(cluster.port))
        block = next(block for block in page.split("```") if "get-auth-token" in block)
        token, mode, head, second, repro = block.strip().splitlines()
        shell(token)
        assert (checkout / ".ray/auth_token").stat().st_mode & 0o777 == 0o600
        name, value = shlex.split(mode, comments=True)[1].split("=")
        monkeypatch.setenv(name, value)
        cluster.head(*shlex.split(head)[2:])
        cluster.second(*shlex.split(second)[2:])
        assert "2 nodes worked" in shell(repro).stdout
        monkeypatch.setenv("RAY_AUTH_TOKEN", "a guess")
        monkeypatch.setenv("RAY_NUM_REDIS_GET_RETRIES", "1")  # it would ask for 20 s
        refused = shell(f"RAY_ADDRESS={cluster.address} {command}", status=1)
        assert "InvalidAuthToken" in refused.stderr
        assert "worked" not in refused.stdout


def shell(line: str, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stdout + done.stderr
    return done


def workers(nodes: list[subprocess.Popen[bytes]]) -> list[int]:
    """Process ids of the training workers on these nodes."""
    every = [process for node in nodes for process in psutil.Process(node.pid).children(recursive=True)]
    return [process.pid for process in every if "RayTrainWorker" in " ".join(process.cmdline())]
