"""Linear layers by oneDNN on CPUs where MKL, torch's other library, does not use AVX-512.

torch gives fp32 products to MKL, which keeps AVX-512 for Intel's CPUs; on AMD's it computes with AVX2. oneDNN, the library
that torch has for bf16, is twice as fast where AVX-512 is as wide as its name (Zen 5), and a tenth faster where it takes two
steps (Zen 4; `benchmarks/products.py`). The same sums in another order.
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
    """Whether this is such a CPU; a fixed rule, not a measurement, so that the same seed gives the same weights."""
    about = Path("/proc/cpuinfo")
    others = about.is_file() and "GenuineIntel" not in about.read_text(encoding="utf-8")
    wide = torch.backends.cpu.get_cpu_capability() == "AVX512"
    return others and wide and torch.backends.mkl.is_available() and torch.backends.mkldnn.is_available()


@contextmanager
def by_onednn(model: nn.Module) -> Iterator[None]:
    """Inside the block `model` computes so, where `use` finds that it pays."""
    changed = use(model)
    try:
        yield
    finally:
        for layer in changed:
            del layer.forward


def use(model: nn.Module) -> list[nn.Linear]:
    """From now on the linear layers within the encoder's layers go by oneDNN, on such a CPU, in fp32; returns them.

    A product of a shape not seen before takes oneDNN a millisecond to prepare, so the heads, where the number of rows
    changes with every batch, stay as they are.
    """
    if not faster() or torch.cuda.is_available():
        return []
    inside = [part for layer in backbones.layers(model) for part in layer.modules()]
    changed = [part for part in inside if type(part) is nn.Linear and "forward" not in vars(part)]
    for layer in changed:
        layer.forward = partial(_forward, layer)  # type: ignore[method-assign]
    return changed


def _forward(layer: nn.Linear, states: torch.Tensor) -> torch.Tensor:
    """In the place of `layer.forward`: states (..., I) to (..., O). An export to ONNX sees the plain layer."""
    if torch.is_autocast_enabled("cpu") or states.dtype != torch.float32 or torch.compiler.is_compiling():
        return nn.functional.linear(states, layer.weight, layer.bias)
    states = states.contiguous()  # with gaps between rows oneDNN's product on the way back takes 16 ms, not 0.04
    if not torch.is_grad_enabled():
        return product(states, layer.weight, layer.bias)
    return _Linear.apply(states, layer.weight, layer.bias)  # type: ignore[no-untyped-call, no-any-return]


class _Linear(torch.autograd.Function):
    """y = x W^T + b, and the way back."""

    @staticmethod
    def forward(ctx: Any, states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
        ctx.save_for_backward(states, weight)
        return product(states, weight, bias)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        (states, weight), (to_states, to_weight, to_bias) = ctx.saved_tensors, ctx.needs_input_grad
        given, rows = gradients[0].flatten(0, -2).contiguous(), states.flatten(0, -2)
        return (
            product(given, weight.t()).view(states.shape) if to_states else None,
            product(given.t(), rows.t()) if to_weight else None,
            given.sum(dim=0) if to_bias else None,
        )


def product(states: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
    """x W^T + b: the operator that torch's own compiler uses for it."""
    return torch.ops.mkldnn._linear_pointwise(states, weight, bias, "none", [], "")  # type: ignore[no-any-return]
