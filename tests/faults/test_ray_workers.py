"""Ray Train with real workers: any number of workers gives the same curve, and a killed worker changes nothing."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch

from pipelines.checkpoints import new_head
from pipelines.core.errors import InputError
from pipelines.core.resources import Resources
from pipelines.models.batch import Batch
from pipelines.training import losses
from pipelines.training.batches import RowBatches
from pipelines.training.distributed import fitting
from tests.support import fits, tiny
from tests.support.places import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def started_once() -> Iterator[None]:
    """End Ray after the module; the first training starts it, and the others reuse it."""
    import ray

    yield
    ray.shutdown()


@pytest.fixture
def cluster(started_once: None, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def test_two_workers_give_the_curve_of_one(cluster: None, checkout: Path) -> None:
    params = fits.params(epochs=2)
    alone, curve = fits.trained(checkout, 0, params)
    both, curve_of_two = fits.trained(checkout, 2, params)
    assert len(curve) == 12
    assert curve_of_two == pytest.approx(curve, abs=1e-4)
    assert all(torch.allclose(both[name], alone[name], atol=1e-4) for name in alone if alone[name].is_floating_point())


def test_a_killed_worker_is_restarted_and_changes_nothing(cluster: None, checkout: Path) -> None:
    params = fits.params(epochs=6)
    unbroken, curve = fits.trained(checkout, 0, params)
    killed: list[int] = []

    def kill() -> None:
        checkpoint = checkout / "state/checkpoints/finetune/w1/fit-1.pt"
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not checkpoint.exists():
            time.sleep(0.05)
        for process in psutil.Process().children(recursive=True):
            if "RayTrainWorker" in " ".join(process.cmdline()):
                os.kill(process.pid, signal.SIGKILL)
                killed.append(process.pid)

    watcher = threading.Thread(target=kill)
    watcher.start()
    resumed, curve_after = fits.trained(checkout, 1, params, often=True)
    watcher.join()
    assert len(killed) == 1
    assert curve_after == pytest.approx(curve, abs=1e-4)
    assert all(torch.allclose(resumed[n], unbroken[n], atol=1e-4) for n in unbroken if unbroken[n].is_floating_point())


def test_an_error_in_the_workers_fails_in_one_sentence(cluster: None, checkout: Path) -> None:
    model = new_head.for_task(tiny.encoder(checkout / "encoder"), tiny.TASK, "linear")

    def no_number(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
        total, count = losses.classification(model, batch, step)
        return total * float("nan"), count

    def broken(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
        raise RuntimeError("it broke")

    resources = Resources(workers=1, max_failures=0)
    for loss, sentence in (
        (no_number, "^step 1: the loss is nan on rows"),
        (broken, "^training failed 1 times: .*it broke"),
    ):
        with pytest.raises(InputError, match=sentence), fitting("finetune", "w", resources) as fit:
            fit(model, loss, RowBatches(fits.rows(), 4, 1, 1, 0), fits.params(epochs=1))
