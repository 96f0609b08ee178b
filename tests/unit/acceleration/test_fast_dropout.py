"""Dropout from bits: the same distribution, gradient and switches as torch's, and only inside the block."""

from pathlib import Path

import pytest
import torch
from torch import nn

from pipelines.acceleration import fast_dropout
from pipelines.checkpoints import new_head
from tests.support import tiny
from tests.support.kinds import TASKS

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU keeps torch's")


@pytest.mark.parametrize("p", [0.1, 0.25, 0.5, 0.9])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_share_that_is_dropped_and_what_stays(
    p: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(nn.functional, "dropout", lambda *_, **__: pytest.fail("torch draws"))
    torch.manual_seed(1)
    dropped = fast_dropout.dropout(torch.ones(1000, 1001, dtype=dtype), p)
    assert dropped.dtype == dtype
    share, spread = float((dropped == 0).float().mean()), (p * (1 - p) / dropped.numel()) ** 0.5
    assert abs(share - p) < 4 * spread
    assert dropped[dropped != 0].unique().tolist() == pytest.approx(
        [1 / (1 - p)], rel=1e-4 if dtype == torch.float32 else 1e-2
    )


def test_values_are_dropped_independently() -> None:
    """Of neighbours, of the four values that share a word, and of one call and the next."""
    torch.manual_seed(1)
    first, second = (fast_dropout.dropout(torch.ones(10**6), 0.3).sub(1) for _ in range(2))
    scale, limit = first.var(), 4 / len(first) ** 0.5
    for lag in (1, 2, 3, 4, 8):
        assert abs((first[lag:] * first[:-lag]).mean() / scale) < limit, lag
    assert abs((first * second).mean() / scale) < limit


def test_the_gradient_falls_on_what_stayed() -> None:
    states = torch.randn(3, 5, 7).transpose(0, 2).requires_grad_()  # with gaps between its values
    dropped = fast_dropout.dropout(states, 0.5)
    dropped.sum().backward()
    assert states.grad is not None
    assert torch.allclose(states.grad * states, dropped)
    assert {0.0, 2.0} == set(states.grad.unique().tolist())


@pytest.mark.parametrize(("p", "training"), [(0.0, True), (0.5, False), (1.0, True), (1e-9, True)])
def test_without_randomness_dropout_equals_torchs(p: float, training: bool) -> None:
    states = torch.randn(4, 3)
    assert fast_dropout.dropout(states, p, training).equal(nn.functional.dropout(states, p, training))


def test_dropout_repeats_by_torchs_seed_and_takes_an_empty_tensor() -> None:
    def drawn(seed: int) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.cat([fast_dropout.dropout(torch.ones(100), 0.5) for _ in range(2)])

    assert drawn(1).equal(drawn(1))
    assert not drawn(1).equal(drawn(2))
    assert fast_dropout.dropout(torch.ones(0, 3), 0.5).shape == (0, 3)


@pytest.mark.parametrize("family", ["bert", "modernbert", "xlnet"])
def test_a_model_uses_fast_dropout_inside_the_block_only(
    family: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = new_head.for_task(tiny.of_family(family, checkout / "encoder"), TASKS["single"]).train()
    other = new_head.for_task(checkout / "encoder", TASKS["single"]).train()
    calls: list[float] = []
    drawn, torchs = fast_dropout.dropout, nn.functional.dropout

    def counted(states: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
        calls.append(p)
        return drawn(states, p, training, inplace)

    monkeypatch.setattr(fast_dropout, "dropout", counted)
    inputs = {"input_ids": torch.ones(2, 6, dtype=torch.long), "attention_mask": torch.ones(2, 6, dtype=torch.long)}
    model(**inputs)
    assert not calls
    with fast_dropout.from_bits(model) as on:
        assert on
        assert nn.functional.dropout is torchs
        assert forwards(model) == {part for part in model.modules() if type(part) is nn.Dropout}
        model(**inputs).logits.sum().backward()
        before = len(calls)
        other(**inputs)
    assert len(calls) == before > 0
    with pytest.raises(ZeroDivisionError), fast_dropout.from_bits(model):
        _ = 1 / 0
    assert nn.functional.dropout is torchs
    assert not forwards(model)
    model(**inputs)
    assert len(calls) == before


def forwards(model: nn.Module) -> set[nn.Module]:
    """The modules that have a forward of their own."""
    return {part for part in model.modules() if "forward" in vars(part)}


def test_a_patched_forward_is_left_alone(checkout: Path) -> None:
    model = nn.Sequential(nn.Dropout(0.5), nn.Dropout(0.5))
    model[0].forward = lambda states: states  # type: ignore[method-assign]
    theirs = model[0].forward
    with fast_dropout.from_bits(model):
        assert model[0].forward is theirs
        assert forwards(model) == {*model}
    assert model[0].forward is theirs
    assert forwards(model) == {model[0]}
