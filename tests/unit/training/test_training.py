"""The training loop: what it draws, what it moves, and that a killed run ends as an unbroken one."""

from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pipelines.core.entries import Finetune, Fit, Resources
from pipelines.core.errors import InputError
from pipelines.core.ragged import offsets
from pipelines.models import heads
from pipelines.training import loop, losses, strategies
from pipelines.training.batches import Encoded, RowBatches, collate
from pipelines.training.distributed import fitting
from pipelines.training.packing import PackedBatches
from tests import tiny

ENTRY = {"data": "d", "encoder": "e", "head": "linear", "epochs": 3, "batch_size": 4, "learning_rate": 1e-3}


def rows(count: int = 24, vocab: int = 60, seed: int = 0) -> Encoded:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(3, 12, count)
    ids = rng.integers(5, vocab, lengths.sum()).astype(np.uint16)
    return Encoded(ids, offsets(lengths), lengths.astype(np.int64), rng.integers(0, 3, count))


@pytest.fixture
def model(checkout: Path) -> torch.nn.Module:
    torch.manual_seed(1)
    return heads.for_task(tiny.encoder(checkout / "encoder"), tiny.TASK, "linear")


def test_a_batch_is_what_a_plain_loop_makes() -> None:
    data, chosen = rows(), np.array([5, 0, 9])
    batch = collate(data, chosen, pad_id=0)
    longest = min(-(-max(data.lengths[chosen]) // 8) * 8, max(data.lengths))  # shapes are shared by many batches
    for line, row in enumerate(chosen):
        ids = data.ids[data.offsets[row] : data.offsets[row + 1]].tolist()
        assert batch["input_ids"][line].tolist() == ids + [0] * (longest - len(ids))
        assert batch["attention_mask"][line].tolist() == [1] * len(ids) + [0] * (longest - len(ids))
    assert batch["labels"].tolist() == data.labels[chosen].tolist()


def test_an_epoch_shows_every_row_once_and_the_next_another_order() -> None:
    data = rows()
    batches = RowBatches(data, 5, 2, seed=1, pad_id=0)
    seen = [batches[step]["labels"].tolist() for step in range(len(batches))]
    assert len(seen) == 10
    flat = [list(chain(*seen[:5])), list(chain(*seen[5:]))]
    assert sorted(flat[0]) == sorted(flat[1]) == sorted(data.labels.tolist())
    assert flat[0] != flat[1]
    assert batches[7]["input_ids"].equal(RowBatches(data, 5, 2, seed=1, pad_id=0)[7]["input_ids"])


def test_a_sample_keeps_rows_whole() -> None:
    data = rows(count=40)
    few = data.sample(7, seed=3)
    assert len(few) == 7
    assert data.sample(40, seed=3) is data

    def texts(part: Encoded) -> dict[tuple[int, ...], int]:
        bounds = zip(part.offsets, part.offsets[1:], strict=False)
        return {tuple(part.ids[a:b]): int(label) for (a, b), label in zip(bounds, part.labels, strict=True)}

    assert texts(few).items() <= texts(data).items()


def test_packing_keeps_every_token_in_order_and_pads_nothing() -> None:
    data = rows()
    special = SimpleNamespace(cls_id=2, sep_id=3)
    packed = PackedBatches(data, 16, 3, 1, 1, special)
    sequences = np.concatenate([packed[step]["input_ids"].numpy() for step in range(len(packed))])
    assert sequences.shape == ((len(data.ids) + len(data)) // 14, 16)
    assert (sequences[:, 0] == 2).all()
    assert (sequences[:, -1] == 3).all()
    with pytest.raises(InputError, match="do not fill one sequence of 512"):
        PackedBatches(data, 512, 3, 1, 1, special)


@pytest.mark.parametrize(("strategy", "moved"), [("full", 2), ("top_k", 1), ("frozen", 0)])
def test_frozen_parameters_do_not_move(strategy: str, moved: int, model: torch.nn.Module) -> None:
    entry = Finetune(**ENTRY, strategy=strategy, top_k=1)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with fitting("finetune", "x", Resources()) as fit:
        fit(
            model,
            losses.classification,
            RowBatches(rows(), 4, 2, 1, 0),
            entry,
            partial(strategies.groups, params=entry),
        )
    changed = {name for name, tensor in model.state_dict().items() if not tensor.equal(before[name])}
    layers = [any(f".layer.{i}." in name for name in changed) for i in range(2)]
    assert layers == [moved == 2, moved >= 1]
    assert any(".embeddings." in name for name in changed) == (strategy == "full")
    assert "classifier.weight" in changed


def test_a_run_cut_off_ends_with_the_weights_of_an_unbroken_one(
    model: torch.nn.Module, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    batches, params = (
        RowBatches(rows(), 4, 3, 1, 0),
        Fit(**{k: ENTRY[k] for k in ("epochs", "batch_size", "learning_rate")}),
    )
    curve: list[tuple[int, float]] = []
    with fitting("finetune", "whole", Resources()) as fit:
        fit(model, losses.classification, batches, params, report=lambda step, loss: curve.append((step, loss)))
    whole = {name: tensor.clone() for name, tensor in model.state_dict().items()}

    model.load_state_dict(start)
    asked: list[int] = []

    class Cut(RowBatches):
        def __getitem__(self, step: int) -> dict[str, torch.Tensor]:
            asked.append(step)
            if len(asked) == 11:
                raise KeyboardInterrupt
            return super().__getitem__(step)

    cut, resources = Cut(rows(), 4, 3, 1, 0), Resources(checkpoint_minutes=1e-9)
    with pytest.raises(KeyboardInterrupt), fitting("finetune", "cut", resources) as fit:
        fit(model, losses.classification, cut, params)
    assert Path("state/checkpoints/finetune/cut/fit-1.pt").is_file()
    model.load_state_dict(start)
    assert "goes on after" not in capsys.readouterr().err
    again: list[tuple[int, float]] = []
    with fitting("finetune", "cut", resources) as fit:
        fit(model, losses.classification, cut, params, report=lambda step, loss: again.append((step, loss)))
    assert "fit-1.pt: training goes on after step 10\n" in capsys.readouterr().err
    assert asked == [*range(11), *range(10, 18)]
    assert all(tensor.equal(whole[name]) for name, tensor in model.state_dict().items())
    assert again == curve
    assert not Path("state/checkpoints/finetune/cut").exists()


def test_parts_of_a_batch_make_the_same_update(model: torch.nn.Module) -> None:
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ends = []
    for accumulate in (1, 3):
        model.load_state_dict(start)
        params = Fit(epochs=2, batch_size=6, learning_rate=1e-2, optimizer="sgd", accumulate=accumulate)
        for module in model.modules():
            if isinstance(module, torch.nn.Dropout):
                module.p = 0.0
        with fitting("finetune", "parts", Resources()) as fit:
            fit(model, losses.classification, RowBatches(rows(), 6, 2, 1, 0), params)
        ends.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
    assert all(torch.allclose(tensor, ends[1][name], atol=1e-6) for name, tensor in ends[0].items())
    assert any(not torch.allclose(tensor, start[name], atol=1e-4) for name, tensor in ends[0].items())


@pytest.mark.parametrize("rows_left", [1, 2, 5, 8])
def test_every_worker_has_as_many_parts_and_every_row_is_learned_once(rows_left: int) -> None:
    batch = collate(rows(), np.arange(rows_left), pad_id=0) | {"labels": torch.arange(rows_left)}
    parts = [loop._parts(batch, rank, 3, 2) for rank in range(3)]
    assert len({len(each) for each in parts}) == 1
    labels = torch.cat([part["labels"] for each in parts for part in each])
    assert sorted(labels[labels != -100].tolist()) == list(range(rows_left))
    whole = loop._parts(batch, 0, 1, 1)
    assert all(whole[0][name].equal(tensor) for name, tensor in batch.items())


def test_the_weights_that_scored_best_are_kept_and_training_ends_when_nothing_gets_better(
    model: torch.nn.Module,
) -> None:
    said, kept = iter([0.2, 0.9, 0.5, 0.4, 0.95]), []

    def watch(model: torch.nn.Module) -> dict[str, float]:
        assert not model.training
        kept.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
        return {"accuracy": next(said)}

    curve: list[tuple[int, dict[str, float]]] = []
    params = Fit(epochs=10, batch_size=8, learning_rate=1e-3, looks=10, patience=2)
    with fitting("finetune", "best", Resources()) as fit:
        batches = RowBatches(rows(), 8, 10, 1, 0)
        fit(model, losses.classification, batches, params, None, lambda *point: curve.append(point), watch, "accuracy")
    assert [point["accuracy"] for _, point in curve if "accuracy" in point][:4] == [0.2, 0.9, 0.5, 0.4]
    assert curve[-1][0] < len(batches)
    assert all(tensor.equal(kept[1][name]) for name, tensor in model.state_dict().items())


def test_looking_changes_nothing(model: torch.nn.Module) -> None:
    start = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    ends = []
    for watch in (None, lambda model: {"noise": float(torch.rand(1))}):
        model.load_state_dict(start)
        with fitting("finetune", "look", Resources()) as fit:
            fit(model, losses.classification, RowBatches(rows(), 4, 2, 1, 0), Fit(epochs=2, batch_size=4), watch=watch)
        ends.append({name: tensor.clone() for name, tensor in model.state_dict().items()})
    assert all(tensor.equal(ends[1][name]) for name, tensor in ends[0].items())


def test_balanced_classes_count_alike() -> None:
    weights = losses.balanced(np.array([0, 0, 0, 1, -100]), 3)
    assert weights == pytest.approx((4 / 6, 2.0, 0.0))
    assert 3 * weights[0] == weights[1]


def test_bf16_learns_what_fp32_learns(model: torch.nn.Module) -> None:
    start, last = {name: tensor.clone() for name, tensor in model.state_dict().items()}, []
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


def test_a_checkpoint_of_other_params_is_not_taken_up(model: torch.nn.Module) -> None:
    params = Fit(epochs=1, batch_size=4, learning_rate=1e-3)
    batches = RowBatches(rows(), 4, 1, 1, 0)
    with pytest.raises(RuntimeError), fitting("finetune", "x", Resources()) as fit:
        fit(model, losses.classification, batches, params)
        raise RuntimeError
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    with fitting("finetune", "x", Resources()) as fit:
        fit(model, losses.classification, batches, params.model_copy(update={"learning_rate": 2e-3}))
    assert any(not tensor.equal(before[name]) for name, tensor in model.state_dict().items())


def test_a_loss_that_is_no_number_stops_the_run(model: torch.nn.Module) -> None:
    def broken(model: torch.nn.Module, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor]:
        total, count = losses.classification(model, batch)
        return total * float("nan"), count

    first = RowBatches(rows(), 4, 1, 1, 0).rows(0)
    said = f"step 1: the loss is nan on rows {', '.join(map(str, first))}, ...; the checkpoint before it is kept"
    with pytest.raises(Exception, match=said), fitting("finetune", "x", Resources()) as fit:
        fit(model, broken, RowBatches(rows(), 4, 1, 1, 0), Fit())


def test_a_loss_that_breaks_later_keeps_the_checkpoint_before_it(model: torch.nn.Module) -> None:
    steps = []

    def breaking(model: torch.nn.Module, batch: dict) -> tuple[torch.Tensor, torch.Tensor]:
        total, count = losses.classification(model, batch)
        steps.append(len(steps))
        return (total * float("inf") if len(steps) == 5 else total), count

    resources = Resources(checkpoint_minutes=1e-9)
    with pytest.raises(Exception, match="step 5: the loss is inf"), fitting("finetune", "x", resources) as fit:
        fit(model, breaking, RowBatches(rows(), 4, 2, 1, 0), Fit(learning_rate=1e-4))
    assert torch.load("state/checkpoints/finetune/x/fit-1.pt", weights_only=True)["step"] == 4
