"""Operations counted by hand: linear layers, attention, LSTMs, and int8 as floats; and the spread of latencies."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.measurement import cost
from pipelines.models import shapes
from pipelines.models.quantization import int8
from tests.support import compressed, kinds, tiny

WIDTH, ROWS, TOKENS = 32, 64, 64
HEAD = 2 * (WIDTH * WIDTH + 3 * WIDTH)  # once a sequence: the pooler and the classifier


def layer(tokens: int = TOKENS, share: float = 1.0) -> float:
    """Of a token, with that share of the heads: four projections, two products with T x T scores, two matrices."""
    return share * (2 * 4 * WIDTH * WIDTH + 2 * 2 * tokens * WIDTH) + 2 * 2 * WIDTH * ROWS


@pytest.mark.parametrize(
    ("family", "tokens", "more"),
    [("bert", 64, 0), ("distilbert", 64, 0), ("roberta", 65, 0), ("albert", 64, 2 * 16 * WIDTH)],
)
def test_a_layer_by_hand(family: str, tokens: int, more: int, checkout: Path) -> None:
    """The tiny models read so many tokens; ALBERT projects its embeddings of 16 dimensions besides."""
    model, _ = model_folder.load_tuned(compressed.teacher(family, "single", checkout / "teacher"))
    expected = 2 * layer(tokens) + more + HEAD // tokens
    assert cost.flops_per_token(model, "single") == expected
    assert cost.flops_per_token(int8.quantize(model), "single") == expected


def test_a_head_that_is_gone_costs_nothing(checkout: Path) -> None:
    model, _ = model_folder.load_tuned(compressed.teacher("bert", "single", checkout / "teacher"))
    shapes.keep_heads(model, 0, [1])
    assert cost.flops_per_token(model, "single") == layer() + layer(share=0.5) + HEAD // TOKENS


def test_an_lstm_by_hand(checkout: Path) -> None:
    model = new_head.for_task(tiny.of_family("bilstm", checkout), kinds.TASKS["single"], "linear")
    layer = 2 * 4 * 32 * (32 + 32)  # 32 dimensions in and out, four gates
    assert cost.flops_per_token(model, "single") == 2 * 2 * layer + 2 * 64 * 3 // cost.FLOPS_TOKENS
    assert not model.encoder.layers[0].forward_lstm._forward_hooks


def test_a_machine_that_slows_down_shows_in_the_spread_of_latencies(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three passes over the same three rows, of which the last pass takes twice as long."""
    passes = iter([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0], [2.0, 4.0, 6.0]])
    monkeypatch.setattr(cost, "one_at_a_time", lambda *_: next(passes))
    latency = cost.latency(SimpleNamespace(), SimpleNamespace(spread=lambda count: None))  # type: ignore[arg-type]
    assert (latency["p50"], latency["p50_spread"]) == (2.0, [2.0, 4.0])
    assert latency["p95"] == pytest.approx(np.quantile([1, 2, 3, 1, 2, 3, 2, 4, 6], 0.95))
