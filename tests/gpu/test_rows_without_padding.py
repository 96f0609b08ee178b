"""Rows without padding: the losses and gradients of padded rows in fp32, through the kernel of a GPU."""

import numpy as np
import pytest
import torch

from pipelines.acceleration import sequence_packing, varlen_attention
from pipelines.models.batch import Batch
from pipelines.training import losses, parts
from pipelines.training.batches import collate
from tests.gpu.conftest import CUDA, DEVICE, FAMILIES, SHAPE, each_row, model, rows

pytestmark = pytest.mark.gpu
# relative error of a loss, and of all gradients by their norm, against padded rows in fp32
TOLERANCE = {"fp32": (1e-5, 1e-4), "bf16": (0.005, 0.05)}
PRECISIONS = ["bf16"] if CUDA else ["fp32", "bf16"]  # the kernel takes no fp32


def loss_and_gradients(classifier: torch.nn.Module, batch: Batch) -> tuple[float, torch.Tensor]:
    """The summed loss, and all gradients one after another."""
    classifier.zero_grad()
    total = losses.classification(classifier, batch)[0]
    total.backward()
    return float(total.detach()), torch.cat([p.grad.flatten() for p in classifier.parameters()])


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("family", FAMILIES)
def test_losses_and_gradients_are_those_of_padded_rows(family: str, precision: str, calls: list[int]) -> None:
    classifier = model(family).to(DEVICE).eval()
    here = collate(rows(), np.arange(20), 0)
    batch = parts.on_device(here, DEVICE)
    expected, gradients = loss_and_gradients(classifier, batch)
    assert not calls, "padded rows have no need of it"
    with sequence_packing.rows(classifier), torch.autocast(DEVICE.type, torch.bfloat16, precision == "bf16"):
        sequence_packing.expect(classifier, batch, here)
        loss, same = loss_and_gradients(classifier, batch)
    assert calls == [rounded(here)] * SHAPE["num_hidden_layers"]
    of_loss, of_gradients = TOLERANCE[precision]
    assert loss == pytest.approx(expected, rel=of_loss)
    assert float((same - gradients).norm() / gradients.norm()) < of_gradients


def rounded(batch: Batch) -> int:
    """The batch's tokens, and those that follow for a graph."""
    return len(varlen_attention.Flat(batch["attention_mask"].bool(), torch.device("cpu"), rounded=True).spots)


def test_an_unexpected_mask_is_computed(calls: list[int]) -> None:
    classifier = model().to(DEVICE).eval()
    first, second = (collate(rows(), np.arange(k, k + 8), 0) for k in (0, 8))
    with sequence_packing.rows(classifier), torch.autocast(DEVICE.type, torch.bfloat16, CUDA), torch.no_grad():
        sequence_packing.expect(classifier, parts.on_device(first, DEVICE), first)
        losses.classification(classifier, parts.on_device(second, DEVICE))
    assert set(calls) == {int(second["attention_mask"].sum())}


def test_other_layers_and_other_kernels_are_left_to_packed_rows(calls: list[int]) -> None:
    classifier = model().to(DEVICE).eval()
    classifier.set_attn_implementation("eager")
    batch = parts.on_device(collate(rows(), np.arange(8), 0), DEVICE)
    with sequence_packing.rows(classifier), torch.autocast(DEVICE.type, torch.bfloat16, CUDA), torch.no_grad():
        losses.classification(classifier, batch)
    assert not calls


def test_states_are_packed_and_unpacked_again() -> None:
    inside = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]], dtype=torch.bool)
    at = varlen_attention.Flat(inside, DEVICE)
    states = torch.arange(1.0, 19.0, device=DEVICE).reshape(3, 3, 2)
    together = at.together(states)
    assert together.shape == (1, 6, 2)
    assert (at.bounds.tolist(), at.longest) == ([0, 2, 3, 6], 3)
    assert at.apart(together).equal(states * inside.to(DEVICE)[:, :, None])


@pytest.mark.parametrize("tokens", [1, 64, 65, 1000, 20_000])
def test_rounded_tokens_are_rows_that_nobody_reads(tokens: int) -> None:
    lengths = torch.tensor([*([40] * (tokens // 40)), tokens % 40])
    inside = torch.arange(40) < lengths[:, None]
    at = varlen_attention.Flat(inside, DEVICE, rounded=True)
    total, bounds = len(at.spots), at.bounds.cpu()
    assert tokens <= total <= max(tokens + 63, 1.07 * tokens)
    assert (total % 64, int(bounds[-1]), at.tokens) == (0, total, tokens)
    assert bounds.diff()[: len(lengths)].equal(lengths.int())
    assert int(bounds.diff().max()) <= at.longest == varlen_attention.BLOCK
    states = torch.randn(*inside.shape, 2, device=DEVICE)
    assert at.apart(at.together(states)).equal(states * inside.to(DEVICE)[:, :, None])


@pytest.mark.skipif(not CUDA, reason="the kernel is a GPU's")
def test_the_kernel_is_attention_and_drops_its_weights_from_the_seed() -> None:
    at = varlen_attention.Flat(torch.arange(40) < torch.tensor([40, 3, 17])[:, None], DEVICE)
    torch.manual_seed(1)
    query, key, value = (torch.randn(60, 4, 64, device=DEVICE, dtype=torch.bfloat16) for _ in range(3))
    plain = varlen_attention.attend(query, key, value, at, 0.0)
    exact = each_row(query.float(), key.float(), value.float(), at, 0.0)
    assert (plain.float() - exact).abs().max() < 0.02
    drawn = []
    for seed in (1, 1, *range(2, 200)):
        torch.cuda.manual_seed(seed)
        drawn.append(varlen_attention.attend(query, key, value, at, 0.1).float())
    assert drawn[0].equal(drawn[1])
    assert not drawn[1].equal(drawn[2])
    mean = torch.stack(drawn).mean(dim=0)
    assert (mean - exact).abs().mean() < 0.02, "on average, dropout changes nothing (Srivastava et al. 2014)"
