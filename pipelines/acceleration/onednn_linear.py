"""oneDNN linear layers, for CPUs on which MKL does not use AVX-512.

torch computes fp32 products with MKL, which uses AVX-512 on Intel's CPUs and AVX2 on AMD's. oneDNN, which torch uses
for bf16, is twice as fast where AVX-512 has its full width (Zen 5), and a tenth faster where AVX-512 takes two steps
(Zen 4; `benchmarks/onednn_linear.py`). The sums are the same, in another order.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pipelines.models import backbones


@cache
def faster() -> bool:
    """Return whether this CPU has AVX-512 and torch's MKL does not use it.

    This is a fixed rule, not a measurement, so that the same seed gives the same weights.
    """
    about = Path("/proc/cpuinfo")
    others = about.is_file() and "GenuineIntel" not in about.read_text(encoding="utf-8")
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return others and wide and torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()


@contextmanager
def by_onednn(model: nn.Module) -> Iterator[bool]:
    """Inside the block, the linear layers that `use` chooses run in oneDNN; yields whether any does."""
    changed = use(model)
    try:
        yield bool(changed)
    finally:
        for layer in changed:
            del layer.forward


def use(model: nn.Module) -> list[nn.Linear]:
    """Let the linear layers of the encoder's layers run in oneDNN, in fp32, if it is `faster`; return them.

    oneDNN needs a millisecond to prepare each new shape. The number of rows of a head differs from batch to batch, so
    heads stay as they are.
    """
    if not faster() or torch.cuda.is_available():
        return []
    inside = [part for layer in backbones.layers(model) for part in layer.modules()]
    changed = [part for part in inside if type(part) is nn.Linear and "forward" not in vars(part)]
    for layer in changed:
        layer.forward = partial(_forward, layer)  # type: ignore[method-assign]
    return changed


def _forward(layer: nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """Replaces `layer.forward`: states (..., I) to (..., O). An export to ONNX sees the plain layer."""
    if torch.is_autocast_enabled("cpu") or states.dtype != torch.float32 or torch.compiler.is_compiling():
        return nn.functional.linear(states, layer.weight, layer.bias)
    states = states.contiguous()  # if rows are not contiguous, a backward product takes 16 ms instead of 0.04 ms
    if not torch.is_grad_enabled():
        return product(states, layer.weight, layer.bias)
    return _Linear.apply(states, layer.weight, layer.bias)  # type: ignore[no-untyped-call, no-any-return]


class _Linear(torch.autograd.Function):
    """y = x W^T + b, and its gradients."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(states, weight)
        return product(states, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (states, weight), (to_states, to_weight, to_bias) = ctx.saved_tensors, ctx.needs_input_grad
        gradient, rows = gradients[0].flatten(0, -2).contiguous(), states.flatten(0, -2)
        return (
            product(gradient, weight.t()).view(states.shape) if to_states else None,
            product(gradient.t(), rows.t()) if to_weight else None,
            # a product with ones: torch's sum over rows takes several times as long
            gradient.t().mv(gradient.new_ones(len(gradient))) if to_bias else None,
        )


def product(states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x W^T + b by the oneDNN operator that torch's compiler uses: (..., I) and (O, I) to (..., O)."""
    return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")  # type: ignore[no-any-return]
