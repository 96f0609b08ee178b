"""Which kernel attention is computed by, batch for batch; the plain one of ours gives what the families' own gives."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

from pipelines.acceleration import attention_kernels, fast_dropout
from pipelines.acceleration.attention_kernels import PLAIN, Attention
from pipelines.checkpoints import new_head
from pipelines.models import backbones
from pipelines.training import losses
from pipelines.training.batches import collate
from tests.support import tiny
from tests.support.kinds import TASKS, model_and_rows

LONG = {"inputs_embeds": torch.zeros(2, 300, 32), "attention_mask": torch.ones(2, 300)}
SHORT = {"input_ids": torch.zeros(2, 40)}
ASKS = ("bert", "roberta", "albert", "electra", "distilbert", "mobilebert", "modernbert")  # for a kernel, by its name


@pytest.mark.parametrize(
    ("precision", "short", "long"), [("fp32", PLAIN, "sdpa"), ("auto", PLAIN, "sdpa"), ("bf16", PLAIN, PLAIN)]
)
@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has the fused kernel always")
def test_plain_attention_is_for_short_rows(
    precision: str, short: str, long: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.core.cpu.has_bf16", lambda: True)
    model = new_head.for_task(tiny.of_family("bert", checkout / "encoder"), TASKS["single"])
    attention = Attention(model, precision)
    for batch, name in ((LONG, long), (SHORT, short), (SHORT, short), (LONG, long)):
        attention.choose(batch)
        assert model.config._attn_implementation == model.bert.config._attn_implementation == name
    attention.restore()
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has the fused kernel always")
def test_a_model_has_its_own_kernel_again_after_the_block(checkout: Path) -> None:
    model = new_head.for_task(tiny.of_family("bert", checkout / "encoder"), TASKS["single"])
    with pytest.raises(ZeroDivisionError), attention_kernels.by_length(model, "fp32") as attention:
        attention.choose(SHORT)
        assert model.config._attn_implementation == PLAIN
        _ = 1 / 0
    assert model.config._attn_implementation == model.bert.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("kind", ["single", "span"])
@pytest.mark.parametrize("family", ASKS)
def test_ours_gives_the_loss_and_the_gradients_of_the_familys_own(
    family: str, kind: str, checkout: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, data = model_and_rows(kind, family, checkout)
    batch, loss, calls = collate(data, np.arange(10), 0), losses.for_kind(kind), []
    attend = attention_kernels.attend

    def counted(*inputs: Any, **named: Any) -> tuple[torch.Tensor, torch.Tensor]:
        calls.append(inputs[0])
        return attend(*inputs, **named)

    monkeypatch.setattr(attention_kernels, "attend", counted)
    Attention(model, "fp32")  # it makes the name known
    results = {}
    for name in ("eager", PLAIN):
        model.set_attn_implementation(name)
        model.zero_grad()
        total = loss(model, batch, 0)[0]
        total.backward()
        gradients = {n: p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}
        results[name] = float(total.detach()), gradients
        assert len(calls) == (len(backbones.layers(model)) * _rounds(model) if name == PLAIN else 0)
    (expected, gradients), (fused, same) = results["eager"], results[PLAIN]
    assert fused == pytest.approx(expected, rel=1e-5)
    assert same.keys() == gradients.keys()
    assert all(torch.allclose(same[name], gradient, atol=1e-5) for name, gradient in gradients.items())


def _rounds(model: nn.Module) -> int:
    """How often a forward pass goes through each layer: ALBERT has one for all."""
    return backbones.encoder(model).config.num_hidden_layers // len(backbones.layers(model))


def test_weights_of_attention_are_dropped_from_bits_while_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nn.functional, "dropout", lambda *_, **__: pytest.fail("torch draws"))
    torch.manual_seed(1)
    query, key, value = (torch.randn(2, 3, 5, 4) for _ in range(3))
    layer = nn.Identity()
    torch.manual_seed(2)
    attended, weights = attention_kernels.attend(layer, query, key, value, None, dropout=0.5)
    plain = torch.softmax(query @ key.transpose(2, 3) / 2, dim=-1)
    torch.manual_seed(2)
    assert torch.allclose(weights, fast_dropout.dropout(plain, 0.5))
    assert torch.allclose(attended, (weights @ value).transpose(1, 2))
    assert (weights == 0).any()
    monkeypatch.undo()
    assert torch.allclose(attention_kernels.attend(layer.eval(), query, key, value, None, dropout=0.5)[1], plain)
