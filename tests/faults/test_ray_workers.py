"""Ray Train with real workers: as many as one likes give one curve, and a killed one changes nothing."""

import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
import torch

from pipelines.core.entries import Fit, Resources
from pipelines.core.errors import InputError
from pipelines.models import heads
from pipelines.training import losses
from pipelines.training.batches import RowBatches
from pipelines.training.distributed import fitting
from tests import tiny
from tests.conftest import ROOT
from tests.unit.training.test_training import rows

pytestmark = pytest.mark.slow


@pytest.fixture
def cluster(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    import ray

    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    yield
    ray.shutdown()


NEVER, EACH_STEP = 5.0, 1e-9  # minutes between two checkpoints


def fit_params(epochs: int) -> Fit:
    """SGD: Adam would turn the rounding of a gradient that is nothing but rounding into a whole step."""
    return Fit(epochs=epochs, batch_size=4, optimizer="sgd", momentum=0.9, learning_rate=0.02)


def trained(
    folder: Path, workers: int | tuple[int, int], params: Fit, often: bool = False
) -> tuple[dict[str, torch.Tensor], list[float]]:
    """Weights and loss curve of one training without dropout, which each worker would draw for itself."""
    torch.manual_seed(1)
    model = heads.for_task(tiny.encoder(folder / f"encoder-{workers}"), tiny.TASK, "linear")
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout):
            module.p = 0.0
        if hasattr(module, "dropout_prob"):
            module.dropout_prob = 0.0
    model.config.encoder.attention_probs_dropout_prob = 0.0
    curve: list[float] = []
    resources = Resources(workers=workers, checkpoint_minutes=EACH_STEP if often else NEVER)
    with fitting("finetune", f"w{workers}", resources) as fit:
        batches = RowBatches(rows(), 4, params.epochs, 1, 0)
        fit(model, losses.classification, batches, params, report=lambda step, at: curve.append(at["loss"]))
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}, curve


def test_two_workers_give_the_curve_of_one(cluster: None, checkout: Path) -> None:
    params = fit_params(epochs=2)
    alone, curve = trained(checkout, 0, params)
    both, curve_of_two = trained(checkout, 2, params)
    assert len(curve) == 12
    assert curve_of_two == pytest.approx(curve, abs=1e-4)
    assert all(torch.allclose(both[name], alone[name], atol=1e-4) for name in alone if alone[name].is_floating_point())


def test_a_killed_worker_is_restarted_and_changes_nothing(cluster: None, checkout: Path) -> None:
    params = fit_params(epochs=6)
    unbroken, curve = trained(checkout, 0, params)
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
    resumed, curve_after = trained(checkout, 1, params, often=True)
    watcher.join()
    assert len(killed) == 1
    assert curve_after == pytest.approx(curve, abs=1e-4)
    assert all(torch.allclose(resumed[n], unbroken[n], atol=1e-4) for n in unbroken if unbroken[n].is_floating_point())


def test_an_error_in_the_workers_is_one_sentence(cluster: None, checkout: Path) -> None:
    model = heads.for_task(tiny.encoder(checkout / "encoder"), tiny.TASK, "linear")

    def no_number(model: torch.nn.Module, batch: dict) -> tuple[torch.Tensor, torch.Tensor]:
        total, count = losses.classification(model, batch)
        return total * float("nan"), count

    def broken(model: torch.nn.Module, batch: dict) -> tuple[torch.Tensor, torch.Tensor]:
        raise RuntimeError("it broke")

    resources = Resources(workers=1, max_failures=0)
    for loss, sentence in (
        (no_number, "^step 1: the loss is nan on rows"),
        (broken, "^training failed 1 times: .*it broke"),
    ):
        with pytest.raises(InputError, match=sentence), fitting("finetune", "w", resources) as fit:
            fit(model, loss, RowBatches(rows(), 4, 1, 1, 0), fit_params(epochs=1))
