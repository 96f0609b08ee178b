"""Dropout from bits: the same distribution, gradient and switches as torch's, and only inside the block."""

from pathlib import Path

import pytest
import torch
from torch import nn

from pipelines.models import dropout, heads
from tests import tiny
from tests.contracts.test_kinds_and_families import TASKS

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU keeps torch's")


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_share_that_is_dropped_and_what_stays(
    p: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(dropout, "TORCHS")  # it is not what draws
    torch.manual_seed(1)
    found = dropout.dropout(torch.ones(1000, 1001, dtype=dtype), p)
    assert found.dtype == dtype
    share, spread = float((found == 0).float().mean()), (p * (1 - p) / found.numel()) ** 0.5
    assert abs(share - p) < 4 * spread
    assert found[found != 0].unique().tolist() == pytest.approx(
        [1 / (1 - p)], rel=1e-4 if dtype == torch.float32 else 1e-2
    )


def test_values_are_dropped_independently() -> None:
    """Of neighbours, of the four values that share a word, and of one call and the next."""
    torch.manual_seed(1)
    one, other = (dropout.dropout(torch.ones(10**6), 0.3).sub(1) for _ in range(2))
    scale, limit = one.var(), 4 / len(one) ** 0.5
    for lag in (1, 2, 3, 4, 8):
        assert abs((one[lag:] * one[:-lag]).mean() / scale) < limit, lag
    assert abs((one * other).mean() / scale) < limit


def test_the_gradient_falls_on_what_stayed() -> None:
    states = torch.randn(3, 5, 7).transpose(0, 2).requires_grad_()  # with gaps between its values
    found = dropout.dropout(states, 0.5)
    found.sum().backward()
    assert states.grad is not None
    assert torch.allclose(states.grad * states, found)
    assert {0.0, 2.0} == set(states.grad.unique().tolist())


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.5, False), (1.0, True), (1e-9, True)])
def test_where_nothing_is_drawn(p: float, training: bool) -> None:
    states = torch.randn(4, 3)
    assert dropout.dropout(states, p, training).equal(nn.functional.dropout(states, p, training))


def test_a_seed_of_torchs_repeats_it_and_no_value_is_no_trouble() -> None:
    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.cat([dropout.dropout(torch.ones(100), 0.5) for _ in range(2)])

    assert drawn(1).equal(drawn(1))
    assert not drawn(1).equal(drawn(2))
    assert dropout.dropout(torch.ones(0, 3), 0.5).shape == (0, 3)


@pytest.mark.parametrize("family", ["bert", "modernbert", "xlnet"])
def test_a_model_draws_so_inside_the_block_alone(family: str, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = heads.for_task(tiny.of_family(family, checkout / "encoder"), TASKS["single"]).train()
    calls: list[float] = []
    drawn = dropout.dropout

    def counted(states: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        calls.append(p)
        return drawn(states, p, training, inplace)

    monkeypatch.setattr(dropout, "dropout", counted)
    inputs = {"input_ids": torch.ones(2, 6, dtype=torch.long), "attention_mask": torch.ones(2, 6, dtype=torch.long)}
    model(**inputs)
    assert not calls
    with dropout.from_bits():
        model(**inputs).logits.sum().backward()
    assert calls
    before = len(calls)
    with pytest.raises(ZeroDivisionError), dropout.from_bits():
        _ = 1 / 0
    model(**inputs)
    assert len(calls) == before
