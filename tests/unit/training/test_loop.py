"""The training loop: what it moves, which weights it keeps, where it stops."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from pipelines.core.errors import InputError
from pipelines.core.resources import Resources
from pipelines.entries.finetune import Finetune
from pipelines.entries.parts.fit import Fit
from pipelines.models.batch import Batch
from pipelines.training import losses, parts, strategies
from pipelines.training.batches import RowBatches, collate
from pipelines.training.distributed import fitting
from pipelines.training.loop import Job
from tests.support.fits import rows, weights, without_dropout

ENTRY = {"data": "d", "encoder": "e", "head": "linear", "epochs": 3, "batch_size": 4, "learning_rate": 1e-3}


@pytest.mark.parametrize(("strategy", "moved"), [("full", 2), ("top_k", 1), ("frozen", 0)])
def test_frozen_parameters_do_not_move(strategy: str, moved: int, model: torch.nn.Module) -> None:
    entry = Finetune(**ENTRY, strategy=strategy, top_k=1)
    before = weights(model)
    with fitting("finetune", "x", Resources()) as fit:
        groups = partial(strategies.groups, params=entry)
        fit(model, losses.classification, RowBatches(rows(), 4, 2, 1, 0), entry, groups=groups)
    changed = {name for name, tensor in model.state_dict().items() if not tensor.equal(before[name])}
    layers = [any(f".layer.{i}." in name for name in changed) for i in range(2)]
    assert layers == [moved == 2, moved >= 1]
    assert any(".embeddings." in name for name in changed) == (strategy == "full")
    assert "classifier.weight" in changed


def test_parts_of_a_batch_make_the_same_update(model: torch.nn.Module) -> None:
    start = weights(model)
    without_dropout(model)
    ends = []
    for accumulate in (1, 3):
        model.load_state_dict(start)
        params = Fit(epochs=2, batch_size=6, learning_rate=1e-2, optimizer="sgd", accumulate=accumulate)
        with fitting("finetune", "parts", Resources()) as fit:
            fit(model, losses.classification, RowBatches(rows(), 6, 2, 1, 0), params)
        ends.append(weights(model))
    assert all(torch.allclose(tensor, ends[1][name], atol=1e-6) for name, tensor in ends[0].items())
    assert any(not torch.allclose(tensor, start[name], atol=1e-4) for name, tensor in ends[0].items())


@pytest.mark.parametrize("rows_left", [1, 2, 5, 8])
def test_every_worker_has_as_many_parts_and_every_row_is_learned_once(rows_left: int) -> None:
    batch = collate(rows(), np.arange(rows_left), pad_id=0) | {"labels": torch.arange(rows_left)}
    shares = [parts.of(batch, rank, 3, 2) for rank in range(3)]
    assert len({len(share) for share in shares}) == 1
    labels = torch.cat([rows["labels"] for share in shares for rows, counts in share if counts])
    assert sorted(labels.tolist()) == list(range(rows_left))
    others = [rows for share in shares for rows, counts in share if not counts]
    assert bool(others) == (rows_left < 8)
    assert all(len(rows["labels"]) == 1 for rows in others)
    whole = parts.of(batch, 0, 1, 1)
    assert all(whole[0].rows[name].equal(tensor) for name, tensor in batch.items())


class Full:
    """A loss for which more than `most` rows at once do not fit into memory."""

    def __init__(self, most: int, compares_rows: bool = False) -> None:
        self.most, self.compares_rows, self.batch_sizes = most, compares_rows, []

    def __call__(self, model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
        self.batch_sizes.append(len(batch["labels"]))
        if self.batch_sizes[-1] > self.most:
            raise torch.OutOfMemoryError("out of memory")
        return losses.classification(model, batch, step)


def test_a_batch_whose_rows_are_compared_is_not_halved(model: torch.nn.Module) -> None:
    loss = Full(2, compares_rows=True)
    message = (
        r"^4 rows at once do not fit into memory; reduce batch_size \(the objective compares all rows of a batch\)"
    )
    with pytest.raises(InputError, match=message), fitting("finetune", "x", Resources()) as fit:
        fit(model, loss, RowBatches(rows(), 4, 1, 1, 0), Fit(batch_size=4))
    assert loss.batch_sizes == [4]


def test_an_update_without_room_for_its_state_is_not_made_twice(
    model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss, zeros_like, full = Full(4), torch.zeros_like, iter([False, False, False, True])

    def limited(*arguments: Any, **options: Any) -> torch.Tensor:
        if next(full, False):
            raise torch.OutOfMemoryError("out of memory")
        return zeros_like(*arguments, **options)

    monkeypatch.setattr(torch, "zeros_like", limited)
    message = "^the optimizer's state does not fit into memory; set optimizer to sgd, or train a smaller model$"
    with pytest.raises(InputError, match=message), fitting("finetune", "x", Resources()) as fit:
        fit(model, loss, RowBatches(rows(), 4, 1, 1, 0), Fit(batch_size=4))
    assert loss.batch_sizes == [4]
    assert not next(full, False)


def test_batches_stay_halved_for_the_same_job_and_for_no_other(model: torch.nn.Module) -> None:
    start = weights(model)

    def steps(loss: Full, learning_rate: float, cut: bool) -> list[int]:
        def call(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
            if cut and step == 2:
                raise KeyboardInterrupt
            return loss(model, batch, step)

        model.load_state_dict(start)
        with fitting("finetune", "x", Resources()) as fit:
            fit(model, call, RowBatches(rows(), 4, 1, 1, 0), Fit(batch_size=4, learning_rate=learning_rate))
        return loss.batch_sizes

    cut_off = Full(2)
    for loss in (cut_off, Full(4)):
        with pytest.raises(KeyboardInterrupt):
            steps(loss, 1e-3, cut=True)
        assert loss.batch_sizes == ([4, 2, 2, 2, 2] if loss is cut_off else [2, 2, 2, 2])
    assert steps(Full(4), 2e-3, cut=False) == [4] * 6


def test_the_weights_that_scored_best_are_kept_and_training_ends_when_nothing_gets_better(
    model: torch.nn.Module,
) -> None:
    scores, snapshots = iter([0.2, 0.9, 0.5, 0.4, 0.95]), []

    def watch(model: torch.nn.Module) -> dict[str, float]:
        assert not model.training
        snapshots.append(weights(model))
        return {"accuracy": next(scores)}

    curve: list[tuple[int, dict[str, float]]] = []
    params = Fit(epochs=10, batch_size=8, learning_rate=1e-3, evaluations=10, patience=2)
    with fitting("finetune", "best", Resources()) as fit:
        batches, add = RowBatches(rows(), 8, 10, 1, 0), lambda *point: curve.append(point)
        fit(model, losses.classification, batches, params, report=add, watch=watch, select="accuracy")
    assert [point["accuracy"] for _, point in curve if "accuracy" in point] == [0.2, 0.9, 0.5, 0.4]
    assert curve[-1][0] < len(batches)
    assert curve[-1][1]["accuracy"] == 0.4
    assert all(tensor.equal(snapshots[1][name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize(("epochs", "count"), [(2, 4), (6, 10), (10, 30), (2, 10), (6, 6)])
def test_a_model_is_evaluated_as_often_as_params_say(epochs: int, count: int, model: torch.nn.Module) -> None:
    batches, params = RowBatches(rows(), 8, epochs, 1, 0), Fit(evaluations=count)
    job = Job(model, losses.classification, batches, params, None, Path(), 1, watch=lambda model: {})
    due = [step for step in range(1, len(batches) + 1) if job.watches(step)]
    assert len(due) == min(count, len(batches))
    assert due[-1] == len(batches)
    between = np.diff([0, *due])
    assert between.max() - between.min() <= 1


def test_an_evaluation_changes_nothing(model: torch.nn.Module) -> None:
    start = weights(model)
    ends = []
    for watch in (None, lambda model: {"noise": float(torch.rand(1))}):
        model.load_state_dict(start)
        with fitting("finetune", "watched", Resources()) as fit:
            fit(model, losses.classification, RowBatches(rows(), 4, 2, 1, 0), Fit(epochs=2, batch_size=4), watch=watch)
        ends.append(weights(model))
    assert all(tensor.equal(ends[1][name]) for name, tensor in ends[0].items())


def test_bf16_learns_what_fp32_learns(model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pipelines.core.cpu.has_bf16", lambda: True)
    start, last = weights(model), []
    for precision in ("fp32", "bf16"):
        model.load_state_dict(start)
        curve: list[tuple[int, dict[str, float]]] = []
        with fitting("finetune", "bf16", Resources(precision=precision)) as fit:
            params = Fit(epochs=8, batch_size=8, learning_rate=1e-2)
            batches = RowBatches(rows(), 8, 8, 1, 0)
            fit(model, losses.classification, batches, params, report=lambda *point, to=curve: to.append(point))
        assert {p.dtype for p in model.parameters()} == {torch.float32}
        last.append([point["loss"] for _, point in curve])
    assert last[0] != last[1]
    assert last[1] == pytest.approx(last[0], rel=0.1)


def test_a_loss_that_is_no_number_stops_the_run(model: torch.nn.Module) -> None:
    def broken(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
        total, count = losses.classification(model, batch, step)
        return total * float("nan"), count

    first = RowBatches(rows(), 4, 1, 1, 0).rows(0)
    message = f"step 1: the loss is nan on rows {', '.join(map(str, first))}, ...; the previous checkpoint is kept"
    with pytest.raises(Exception, match=message), fitting("finetune", "x", Resources()) as fit:
        fit(model, broken, RowBatches(rows(), 4, 1, 1, 0), Fit())


def test_a_loss_that_breaks_later_keeps_the_checkpoint_before_it(model: torch.nn.Module) -> None:
    steps = []

    def breaking(model: torch.nn.Module, batch: Batch, step: int) -> losses.Sums:
        total, count = losses.classification(model, batch, step)
        steps.append(step)
        return (total * float("inf") if step == 4 else total), count

    resources = Resources(checkpoint_minutes=1e-9)
    with pytest.raises(Exception, match="step 5: the loss is inf"), fitting("finetune", "x", resources) as fit:
        fit(model, breaking, RowBatches(rows(), 4, 2, 1, 0), Fit(learning_rate=1e-4))
    assert steps == [0, 1, 2, 3, 4]
    assert torch.load("state/checkpoints/finetune/x/fit-1.pt", weights_only=True)["step"] == 4
