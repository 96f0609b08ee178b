"""Faults in one process: a full disk, a read-only folder, too little GPU memory, the same stage twice."""

import errno
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import torch

from pipelines.core.errors import InputError
from pipelines.core.resources import Resources
from pipelines.entries.parts.fit import Fit
from pipelines.models.batch import Batch
from pipelines.training import losses
from pipelines.training.batches import RowBatches
from pipelines.training.distributed import fitting
from tests.support import fits
from tests.support.places import ROOT

OFTEN = Resources(checkpoint_minutes=1e-9)
CHECKPOINT = Path("state/checkpoints/finetune/x/fit-1.pt")


@pytest.fixture
def model(checkout: Path) -> torch.nn.Module:
    return fits.without_dropout(fits.model(checkout))


def batches(epochs: int = 2) -> RowBatches:
    return RowBatches(fits.rows(), 4, epochs, 1, 0)


def fitted(model: torch.nn.Module, loss: losses.Loss = losses.classification) -> fits.Weights:
    with fitting("finetune", "x", OFTEN) as fit:
        fit(model, loss, batches(), Fit(epochs=2, batch_size=4, optimizer="sgd", momentum=0.9, learning_rate=0.01))
    return fits.weights(model)


def test_a_full_disk_costs_one_checkpoint_and_no_step(
    model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET")
    start = fits.weights(model)
    whole = fitted(model)
    model.load_state_dict(start)
    steps: list[int] = []

    def loss(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
        steps.append(len(steps))
        if steps[-1] == 3:  # the disk is full at the third checkpoint, and has room at the fourth
            CHECKPOINT.with_suffix(".partial").symlink_to("/dev/full")
        return losses.classification(model, batch, step)

    capsys.readouterr()
    after = fitted(model, loss)
    assert capsys.readouterr().err.count("fit-1.pt: not written: No space left on device; training continues") == 1
    assert len(steps) == 12
    assert all(tensor.equal(after[name]) for name, tensor in whole.items())


def test_finished_weights_survive_a_full_disk(model: torch.nn.Module) -> None:
    start = fits.weights(model)
    whole = fitted(model)
    model.load_state_dict(start)
    steps: list[int] = []

    def loss(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
        steps.append(len(steps))
        if steps[-1] == 11:
            CHECKPOINT.with_suffix(".partial").symlink_to("/dev/full")
        return losses.classification(model, batch, step)

    with pytest.raises(OSError, match="No space left on device") as full:
        fitted(model, loss)
    assert full.value.errno == errno.ENOSPC
    assert torch.load(CHECKPOINT, weights_only=True)["step"] == 11
    model.load_state_dict(start)
    after = fitted(model, loss)
    assert len(steps) == 13
    assert all(tensor.equal(after[name]) for name, tensor in whole.items())


def test_an_unwritable_folder_is_reported_before_any_work(model: torch.nn.Module) -> None:
    Path("state").symlink_to("/proc")
    steps: list[int] = []
    message = r"checkpoints/finetune/x: no checkpoint can be written there: "
    with pytest.raises(InputError, match=message), fitting("finetune", "x", OFTEN):
        steps.append(1)
    assert not steps


def test_too_little_memory_halves_the_rows_at_once_for_the_rest_of_the_run(
    model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET")
    start = fits.weights(model)
    whole = fitted(model)
    model.load_state_dict(start)
    batch_sizes: list[int] = []

    def within(most: int) -> losses.Loss:
        def loss(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
            batch_sizes.append(len(batch["labels"]))
            if batch_sizes[-1] > most:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return losses.classification(model, batch, step)

        return loss

    capsys.readouterr()
    after = fitted(model, within(2))
    assert capsys.readouterr().err.count("step 1: 4 rows at once do not fit into memory; half as many from here") == 1
    assert batch_sizes == [4] + [2] * 24
    assert all(torch.allclose(after[name], tensor, atol=1e-5) for name, tensor in whole.items())
    assert not CHECKPOINT.with_suffix(".halved").exists()
    model.load_state_dict(start)
    with pytest.raises(InputError, match="2 rows at once do not fit into memory; reduce batch_size or raise acc"):
        fitted(model, within(1))


def test_one_stage_does_not_run_twice_at_a_time(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    Path("params.yaml").touch()
    waits = "from pipelines.core import stage; import time; stage.run('finetune', lambda key: time.sleep(600))"
    ends = "from pipelines.core import stage; stage.run('finetune', lambda key: print('done', key))"

    def run(code: str, key: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-c", code, key], capture_output=True, text=True, check=False)

    with subprocess.Popen([sys.executable, "-c", waits, "a"]) as first:
        lock, deadline = Path("state/locks/finetune-a"), time.monotonic() + 60
        while not (lock.exists() and lock.read_text()) and time.monotonic() < deadline:
            time.sleep(0.02)
        second = run(ends, "a")
        assert second.returncode == 1
        assert second.stderr.startswith(f"finetune a: error: it is already running (process {first.pid} on ")
        assert second.stderr.count("\n") == 1
        assert run(ends, "b").stdout == "done b\n"
        psutil.Process(first.pid).kill()
    assert run(ends, "a").stdout == "done a\n"
