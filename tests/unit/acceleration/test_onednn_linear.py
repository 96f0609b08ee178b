"""Linear layers by oneDNN: the same scores and gradients, only where they pay, and gone after the block."""

from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from pipelines.acceleration import onednn_linear
from pipelines.checkpoints import new_head
from pipelines.models import backbones
from pipelines.training import losses
from pipelines.training.batches import collate
from tests.support import tiny
from tests.support.kinds import TASKS, model_and_rows

pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU has its own products")


@pytest.fixture(autouse=True)
def on_such_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onednn_linear, "faster", lambda: True)


def changed(model: nn.Module) -> int:
    return sum("forward" in vars(part) for part in model.modules())


@pytest.mark.parametrize("kind", ["single", "tagging"])
@pytest.mark.parametrize("family", backbones.BACKBONES)
def test_scores_and_gradients_are_the_same(family: str, kind: str, checkout: Path) -> None:
    model, data = model_and_rows(kind, family, checkout)
    loss, batch = losses.for_kind(kind), collate(data, np.arange(10), 0)
    plain = loss(model, batch)[0]
    plain.backward()
    expected = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    model.zero_grad()
    with onednn_linear.by_onednn(model):
        if family not in ("xlnet", "bilstm", "albert"):  # no linear layers there, or one layer's shared by all
            assert changed(model) >= 6 * len(backbones.layers(model)) - 4
        fused_loss = loss(model, batch)[0]
        fused_loss.backward()
    assert changed(model) == 0
    assert fused_loss.item() == pytest.approx(plain.item(), rel=1e-5)
    assert expected.keys() == {name for name, p in model.named_parameters() if p.grad is not None}
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(parameter.grad, expected[name], atol=1e-5), name
            assert parameter.grad.is_contiguous(), name


def test_frozen_weights_get_no_gradient() -> None:
    layer, states = nn.Linear(8, 4), torch.randn(2, 3, 8, requires_grad=True)
    layer.weight.requires_grad_(False)
    onednn_linear._forward(layer, states).sum().backward()
    assert layer.weight.grad is None
    assert layer.bias.grad is not None
    assert layer.bias.grad.equal(torch.full((4,), 6.0))
    assert states.grad is not None
    assert torch.allclose(states.grad, layer.weight.sum(dim=0).expand(2, 3, 8))


def test_rows_with_gaps_between_them_are_put_together(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, states = nn.Linear(8, 4), torch.randn(2, 3, 8)[:, :1].requires_grad_()
    parts: list[torch.Tensor] = []
    product = onednn_linear.product
    monkeypatch.setattr(onednn_linear, "product", lambda *arguments: parts.extend(arguments[:1]) or product(*arguments))
    onednn_linear._forward(layer, states).sum().backward()
    assert len(parts) == 3
    assert all(part.is_contiguous() or part.t().is_contiguous() for part in parts)


def test_bf16_is_computed_as_without_onednn_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, states = nn.Linear(8, 4), torch.randn(3, 8)
    monkeypatch.setattr(onednn_linear, "product", lambda *_: pytest.fail("by oneDNN's fp32"))
    with torch.autocast("cpu", torch.bfloat16):
        assert onednn_linear._forward(layer, states).dtype == torch.bfloat16


def test_a_block_within_a_block_changes_nothing(checkout: Path) -> None:
    model = new_head.for_task(tiny.of_family("bert", checkout / "encoder"), TASKS["single"])
    with onednn_linear.by_onednn(model):
        outer = changed(model)
        with onednn_linear.by_onednn(model):
            assert changed(model) == outer > 0
        assert changed(model) == outer
    assert changed(model) == 0


@pytest.mark.parametrize(
    ("vendor", "capability", "expected"),
    [("AuthenticAMD", "AVX512", True), ("GenuineIntel", "AVX512", False), ("AuthenticAMD", "AVX2", False)],
)
def test_onednn_layers_are_used_where_they_are_faster(
    vendor: str, capability: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(Path, "is_file", lambda _: True)
    monkeypatch.setattr(Path, "read_text", lambda _, encoding: f"vendor_id\t: {vendor}\n")
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: capability)
    assert onednn_linear.faster.__wrapped__() is expected
