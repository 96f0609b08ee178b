"""A killed run ends as an unbroken one; a checkpoint serves only the job that wrote it."""

from pathlib import Path

import pytest
import torch

from pipelines.core import paths
from pipelines.core.errors import InputError
from pipelines.core.resources import Resources
from pipelines.entries.parts.fit import Fit
from pipelines.training import losses, resuming
from pipelines.training.batches import RowBatches
from pipelines.training.distributed import fitting
from pipelines.training.loop import Watch
from tests.support.fits import rows, weights


def test_a_run_cut_off_ends_with_the_weights_of_an_unbroken_one(
    model: torch.nn.Module, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    start = weights(model)
    batches, params = RowBatches(rows(), 4, 3, 1, 0), Fit(epochs=3, batch_size=4, learning_rate=1e-3)
    curve: list[tuple[int, float]] = []
    with fitting("finetune", "whole", Resources()) as fit:
        fit(model, losses.classification, batches, params, report=lambda step, loss: curve.append((step, loss)))
    whole = weights(model)
    model.load_state_dict(start)
    steps: list[int] = []

    class Cut(RowBatches):
        def __getitem__(self, step: int) -> dict[str, torch.Tensor]:
            steps.append(step)
            if len(steps) == 11:
                raise KeyboardInterrupt
            return super().__getitem__(step)

    cut, resources = Cut(rows(), 4, 3, 1, 0), Resources(checkpoint_minutes=1e-9)
    with pytest.raises(KeyboardInterrupt), fitting("finetune", "cut", resources) as fit:
        fit(model, losses.classification, cut, params)
    assert Path("state/checkpoints/finetune/cut/fit-1.pt").is_file()
    model.load_state_dict(start)
    assert "resumes after" not in capsys.readouterr().err
    again: list[tuple[int, float]] = []
    with fitting("finetune", "cut", resources) as fit:
        fit(model, losses.classification, cut, params, report=lambda step, loss: again.append((step, loss)))
    assert "fit-1.pt: training resumes after step 10\n" in capsys.readouterr().err
    assert steps == [*range(11), *range(10, 18)]
    assert all(tensor.equal(whole[name]) for name, tensor in model.state_dict().items())
    assert again == curve
    assert not Path("state/checkpoints/finetune/cut").exists()


def test_the_best_weights_are_those_of_the_resumed_run(model: torch.nn.Module) -> None:
    """The first run has a better score after its last checkpoint; the second has not, as on another machine."""
    start, snapshots = weights(model), []
    scores = iter([0.5, 0.7, 0.6, 0.9])
    params = Fit(epochs=2, batch_size=4, learning_rate=1e-3, evaluations=12)

    def run(watch: Watch) -> list[dict[str, float]]:
        curve: list[dict[str, float]] = []
        model.load_state_dict(start)
        with fitting("finetune", "best", Resources(checkpoint_minutes=1e-9)) as fit:
            batches, add = RowBatches(rows(), 4, 2, 1, 0), lambda _, point: curve.append(point)
            fit(model, losses.classification, batches, params, report=add, watch=watch, select="accuracy")
        return curve

    def first(model: torch.nn.Module) -> dict[str, float]:
        snapshots.append(weights(model))
        if len(snapshots) == 4:  # the checkpoint of this step is not written
            checkpoint = paths.checkpoints("finetune", "best") / "fit-1.pt"
            checkpoint.with_suffix(".partial").mkdir()
        if len(snapshots) == 5:
            raise KeyboardInterrupt
        return {"accuracy": next(scores)}

    with pytest.raises(KeyboardInterrupt):
        run(first)
    (paths.checkpoints("finetune", "best") / "fit-1.partial").rmdir()
    curve = run(lambda model: {"accuracy": 0.1})
    assert [point["accuracy"] for point in curve] == [0.5, 0.7, 0.6, *[0.1] * 9]
    assert all(tensor.equal(snapshots[1][name]) for name, tensor in model.state_dict().items())


def test_a_checkpoint_of_other_code_is_not_reused(
    model: torch.nn.Module, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    manifest = Path("artifacts/code/stages/finetune.txt")
    manifest.parent.mkdir(parents=True)
    params, batches, start = (
        Fit(epochs=1, batch_size=4, learning_rate=1e-3),
        RowBatches(rows(), 4, 1, 1, 0),
        weights(model),
    )
    for code, ending in (("1 losses.py\n", ""), ("2 losses.py\n", "starts"), ("2 losses.py\n", "")):
        manifest.write_text(code)
        model.load_state_dict(start)
        with pytest.raises(RuntimeError), fitting("finetune", "x", Resources()) as fit:
            fit(model, losses.classification, batches, params)
            raise RuntimeError  # the model was not saved, so the checkpoint stays
        assert ("training starts from the beginning" in capsys.readouterr().err) == bool(ending), code


def test_a_checkpoint_of_other_params_is_not_reused(model: torch.nn.Module) -> None:
    params = Fit(epochs=1, batch_size=4, learning_rate=1e-3)
    batches = RowBatches(rows(), 4, 1, 1, 0)
    with pytest.raises(RuntimeError), fitting("finetune", "x", Resources()) as fit:
        fit(model, losses.classification, batches, params)
        raise RuntimeError
    before = weights(model)
    with fitting("finetune", "x", Resources()) as fit:
        fit(model, losses.classification, batches, params.model_copy(update={"learning_rate": 2e-3}))
    assert any(not tensor.equal(before[name]) for name, tensor in model.state_dict().items())


def test_a_checkpoint_that_cannot_be_read_is_named(model: torch.nn.Module) -> None:
    """As a disk may leave it after the power failed: the stage does not begin again without a word."""
    params, batches = Fit(epochs=1, batch_size=4, learning_rate=1e-3), RowBatches(rows(), 4, 1, 1, 0)
    with pytest.raises(RuntimeError), fitting("finetune", "x", Resources()) as fit:
        fit(model, losses.classification, batches, params)
        raise RuntimeError
    checkpoint = paths.checkpoints("finetune", "x") / "fit-1.pt"
    whole = checkpoint.read_bytes()
    for size in (0, 10, len(whole) // 2):
        checkpoint.write_bytes(whole[:size])
        with pytest.raises(
            InputError, match=r"fit-1\.pt: no checkpoint can be read from it .*; remove it to start anew"
        ):
            resuming.load(checkpoint, "any")
