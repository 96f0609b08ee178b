"""The training loop: what it draws, what it moves, and that a killed run ends as an unbroken one."""

from functools import partial
from itertools import chain
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from pipelines.core.errors import InputError, UsageError
from pipelines.core.params import Finetune, Fit, Resources
from pipelines.core.ragged import offsets
from pipelines.models import backbones, heads
from pipelines.training import losses, optim, strategies
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
    longest = max(data.lengths[chosen])
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


def test_a_batch_holds_rows_of_like_length() -> None:
    data = rows(count=400)
    batches = RowBatches(data, 8, 1, seed=1, pad_id=0)
    real = sum(int(batches[step]["attention_mask"].sum()) for step in range(len(batches)))
    padded = sum(batches[step]["attention_mask"].numel() for step in range(len(batches)))
    assert real == data.lengths.sum()
    assert real / padded > 0.95  # in order of chance it is 0.68


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


def test_each_top_layer_has_its_own_rate(model: torch.nn.Module) -> None:
    entry = Finetune(
        **ENTRY, strategy="top_k", top_k=2, optimizer="sgd", layer_learning_rates=[1e-3, 5e-4], head_learning_rate=0.1
    )
    groups = strategies.groups(model, entry)
    rate = {id(p): group["lr"] for group in optim.optimizer(groups, entry).param_groups for p in group["params"]}
    low, top = backbones.layers(model)
    assert {rate[id(p)] for p in top.parameters()} == {1e-3}
    assert {rate[id(p)] for p in low.parameters()} == {5e-4}
    assert {rate[id(p)] for p in heads.head_parameters(model)} == {0.1}
    with pytest.raises(UsageError, match="1 rates for the top 2 layers"):
        strategies.groups(model, entry.model_copy(update={"layer_learning_rates": [1e-3]}))
    with pytest.raises(UsageError, match="9 layers of an encoder that has 2"):
        strategies.groups(model, entry.model_copy(update={"top_k": 9}))


@pytest.mark.parametrize("schedule", ["linear", "cosine", "constant"])
def test_a_schedule_rises_and_never_passes_its_peak(schedule: str) -> None:
    params = Fit(schedule=schedule, warmup=0.2)
    factors = [optim.factor(step, 50, params) for step in range(50)]
    assert factors[:11] == sorted(factors[:11])
    assert max(factors) == factors[10] == 1
    assert factors[10:] == sorted(factors[10:], reverse=True)
    assert (factors[-1] < 0.05) == (schedule != "constant")


def test_a_run_cut_off_ends_with_the_weights_of_an_unbroken_one(
    model: torch.nn.Module, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    again: list[tuple[int, float]] = []
    with fitting("finetune", "cut", resources) as fit:
        fit(model, losses.classification, cut, params, report=lambda step, loss: again.append((step, loss)))
    assert asked == [*range(11), *range(10, 18)]
    assert all(tensor.equal(whole[name]) for name, tensor in model.state_dict().items())
    assert again == curve
    assert not Path("state/checkpoints/finetune/cut").exists()


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

    with pytest.raises(Exception, match="step 1: the loss is nan"), fitting("finetune", "x", Resources()) as fit:
        fit(model, broken, RowBatches(rows(), 4, 1, 1, 0), Fit())
