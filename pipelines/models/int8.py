"""Linear layers with int8 weights and dynamic int8 activations.

Weights are symmetric per output channel, w = q * scale with q in [-127, 127]; activations are quantized at
run time by torch's own kernel (Zafrir et al. 2019, section 3, call it dynamic quantization).
"""

import warnings
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel


class Int8Linear(nn.Module):
    """A linear layer (.., K) to (.., N) whose (N, K) weight is int8 with one scale per row."""

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)
        self._packed: Any = None

    @classmethod
    def of(cls, linear: nn.Linear) -> "Int8Linear":
        """Round `linear`'s weight to int8."""
        weight = linear.weight.detach().float()
        scale = weight.abs().amax(dim=1).clamp(min=1e-8) / 127
        rounded = torch.round(weight / scale[:, None]).clamp(-127, 127).to(torch.int8)
        bias = torch.zeros(len(weight)) if linear.bias is None else linear.bias.detach().float().clone()
        return cls(rounded, scale, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed is None:
            self._packed = self._pack()
        # reduce_range keeps sums of products inside int16 on CPUs without VNNI
        return torch.ops.quantized.linear_dynamic(x, self._packed, reduce_range=True)

    def _pack(self) -> Any:
        """The weight as torch's int8 kernel reads it."""
        points = torch.zeros(len(self.scale), dtype=torch.int64)
        with warnings.catch_warnings():
            # torch 2.13 deprecates quantized tensors, and has no other way into this kernel
            warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
            quantized = torch._make_per_channel_quantized_tensor(self.weight, self.scale.double(), points, 0)
        return torch.ops.quantized.linear_prepack(quantized, self.bias)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None}  # the packed form depends on the CPU


def quantize(model: PreTrainedModel) -> PreTrainedModel:
    """Replace every linear layer of `model` by its int8 form, in place."""
    for name, linear in [(n, m) for n, m in model.named_modules() if isinstance(m, nn.Linear)]:
        replace(model, name, Int8Linear.of(linear))
    return model.eval()


def is_quantized(model: nn.Module) -> bool:
    return any(isinstance(m, Int8Linear) for m in model.modules())


def replace(model: nn.Module, name: str, module: nn.Module) -> None:
    """Replace the module of this name inside `model`."""
    parent, _, child = name.rpartition(".")
    setattr(model.get_submodule(parent), child, module)
