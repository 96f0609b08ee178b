"""Zeros: which weights become zero, how many a round, and that they stay zero while the others train."""

from pathlib import Path

import numpy as np
import pytest
import torch

from pipelines.compression import masks
from pipelines.core.resources import Resources
from pipelines.entries.parts.fit import Fit
from pipelines.models import shapes
from pipelines.training import losses
from pipelines.training.batches import RowBatches
from pipelines.training.distributed import fitting
from tests.support import fits


@pytest.fixture
def model(checkout: Path) -> torch.nn.Module:
    return fits.model(checkout)


def test_every_round_removes_the_same_share_of_what_is_left() -> None:
    assert [masks.sparsity_after(i, 3, 0.488) for i in (1, 2, 3)] == pytest.approx([0.2, 0.36, 0.488])
    assert masks.sparsity_after(1, 1, 0.7) == pytest.approx(0.7)


def test_the_weights_nearest_to_zero_go_wherever_they_are(model: torch.nn.Module) -> None:
    matrices = masks.matrices(model)
    assert len(matrices) == 2 * 6
    assert not any("embedding" in name or "norm" in name.lower() or "classifier" in name for name in matrices)
    every = np.concatenate([p.detach().abs().numpy().ravel() for p in matrices.values()])
    mask = masks.smallest(model, 0.3)
    border = np.sort(every)[int(0.3 * len(every))]
    for name, parameter in matrices.items():
        assert np.array_equal(mask[name].numpy(), parameter.detach().abs().numpy() >= border)
    masks.put(model, mask)
    assert masks.share_of_zeros(model) == pytest.approx(0.3, abs=1e-4)
    more = masks.smallest(model, 0.6)
    assert all((more[name] <= mask[name]).all() for name in matrices), "what is zero stays zero"


def test_a_shared_matrix_is_one(model: torch.nn.Module) -> None:
    shapes.add(model, "groups", [0, 0])
    assert len(masks.matrices(model)) == 6


@pytest.mark.parametrize("optimizer", ["adamw", "sgd"])
def test_zeros_stay_zero_at_every_step_and_the_others_train(model: torch.nn.Module, optimizer: str) -> None:
    mask = masks.smallest(model, 0.5)
    masks.put(model, mask)
    before, shares = fits.weights(model), []

    def watch(now: torch.nn.Module) -> dict[str, float]:
        shares.append(masks.share_of_zeros(now))
        return {"score": float(len(shares))}

    keeper = masks.MaskHooks(mask)
    params = Fit(epochs=2, batch_size=4, learning_rate=0.01, optimizer=optimizer, momentum=0.9, weight_decay=0.1)
    batches = RowBatches(fits.rows(), 4, 2, 1, 0)
    with fitting("compress", "x", Resources()) as fit:
        fit(model, losses.classification, batches, params, each_step=keeper, watch=watch, select="score")
    assert shares == [pytest.approx(0.5, abs=1e-4)] * params.evaluations  # exactly as many at every one
    assert len(set(shares)) == 1
    for name, parameter in masks.matrices(model).items():
        assert not parameter[~mask[name]].any()
        assert not parameter.equal(before[name])
    assert not torch.equal(before["encoder.embeddings.word_embeddings.weight"], model.get_input_embeddings().weight)
    keeper.end()
    with fitting("compress", "y", Resources()) as fit:
        fit(model, losses.classification, batches, params)
    assert masks.share_of_zeros(model) < 0.01, "afterwards all weights train again"
