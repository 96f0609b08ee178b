"""Importance as Michel et al. 2019 define it: by NumPy, by small steps of the masks, and what goes because of it."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pipelines.compression import importance
from pipelines.compression.context import Data
from pipelines.core.errors import UsageError
from pipelines.models import backbones, shapes
from pipelines.models.batch import Batch
from pipelines.training import losses
from tests.support import compressed, kinds


def test_the_gradient_of_a_mask_by_numpy() -> None:
    """L of a row = sum over its tokens of c . W x, so dL/dmask of a part = its inputs times (c W)."""
    rng = np.random.default_rng(0)
    x, weight, c = rng.normal(size=(5, 3, 6)), rng.normal(size=(4, 6)), rng.normal(size=4)
    linear = nn.Linear(6, 4, bias=False).double()
    linear.weight = nn.Parameter(torch.from_numpy(weight))

    def loss(model: nn.Module, batch: Batch, step: int) -> losses.Sums:
        return (model(batch["input_ids"]) * torch.from_numpy(c)).sum(), torch.tensor(5)

    def batches() -> Iterator[Batch]:
        yield {"input_ids": torch.from_numpy(x[:2])}
        yield {"input_ids": torch.from_numpy(x[2:])}

    (measured,) = importance.measure(linear, batches(), loss, [linear], [2])
    gradient = (x * (c @ weight)).sum(axis=1).reshape(5, 3, 2).sum(axis=2)  # (rows, parts)
    assert measured == pytest.approx(np.abs(gradient).mean(axis=0))
    assert not linear(torch.ones(1, 6, dtype=torch.float64)).isnan().any()


@pytest.mark.parametrize("family", ["bert", "albert", "modernbert"])
@pytest.mark.parametrize("kind", ["single", "choice", "tagging"])
def test_a_head_counts_what_a_small_step_of_its_mask_changes(kind: str, family: str, checkout: Path) -> None:
    """By finite differences, row by row; ALBERT uses its one layer twice."""
    model, data = kinds.model_and_rows(kind, family, checkout)
    model = model.double()
    rows = [*Data(data, None, 0).once(6, 1, 1)]

    def loss(model: nn.Module, batch: Batch, step: int) -> losses.Sums:  # without the rounding of a loss in float32
        return model(**backbones.inputs(model, batch)).logits.square().sum(), torch.tensor(1)

    after = shapes.attention(model, 0).after
    size = shapes.head_size(model)
    (measured,) = importance.measure(model, iter(rows), loss, [after], [size])
    step, weight = 1e-4, after.weight.detach().clone()
    for head in range(2):
        changes = []
        for row in rows:
            both = []
            for by in (1 + step, 1 - step):
                with torch.no_grad():
                    after.weight.copy_(weight)
                    after.weight[:, head * size : (head + 1) * size] *= by  # scales what the head says
                    both.append(float(loss(model, row, 0)[0]))
            changes.append(abs(both[0] - both[1]) / (2 * step))
        after.weight.data.copy_(weight)
        assert len(changes) == 6
        assert measured[head] == pytest.approx(np.mean(changes), rel=1e-3, abs=1e-8)


def test_importances_of_a_layer_have_length_one() -> None:
    lengths = importance.normalized([np.array([3.0, 4.0]), np.array([0.0, 0.0]), np.array([5.0])])
    assert [importances.tolist() for importances in lengths] == [[0.6, 0.8], [0.0, 0.0], [1.0]]


def test_the_least_important_go_and_every_layer_keeps_its_best() -> None:
    layers = [np.array([0.1, 0.2, 0.3]), np.array([0.9, 0.05, 0.8])]
    assert importance.staying(layers, 1, 1) == [[0, 1, 2], [0, 2]]
    assert importance.staying(layers, 3, 1) == [[2], [0, 2]]
    assert importance.staying(layers, 4, 1) == [[2], [0]]
    assert importance.staying(layers, 2, 2) == [[1, 2], [0, 2]]
    assert importance.staying([np.zeros(3), np.zeros(3)], 3, 1) == [[0], [0, 2]], "the first of equal ones go"


def test_shares_are_rounded_down_and_refused_in_one_sentence() -> None:
    assert importance.number_of(0.5, [3, 4], 1, "heads") == 3
    assert importance.number_of(0.3, [5, 5], 1, "heads") == 3, "0.3 * 10 is 2.9999999999999996"
    with pytest.raises(UsageError, match=r"share: 0\.1 of 4 heads is less than one"):
        importance.number_of(0.1, [2, 2], 1, "heads")
    with pytest.raises(UsageError, match=r"share: 0\.9 of 4 heads is 3; at most 2 can go, because each layer keeps 1"):
        importance.number_of(0.9, [2, 2], 1, "heads")


def test_rounds_divide_evenly() -> None:
    assert importance.rounds(10, 3) == [3, 4, 3]
    assert importance.rounds(2, 5) == [1, 1]
    assert importance.rounds(7, 1) == [7]


@pytest.mark.parametrize(("features", "unread"), [("second_to_last", 1), ("embeddings", 2)])
def test_layers_that_the_head_does_not_read_do_not_matter(features: str, unread: int, checkout: Path) -> None:
    folder = compressed.teacher("bert", "single", checkout / "teacher", head="linear", features=features)
    context = compressed.context(folder, None, "single", checkout)
    after = [shapes.attention(context.teacher, layer).after for layer in range(2)]
    rows = context.data.once(6, 3, 1)
    measured = importance.measure(context.teacher, rows, losses.for_kind("single"), after, [16, 16])
    assert [bool(layer.any()) for layer in measured] == [True] * (2 - unread) + [False] * unread
