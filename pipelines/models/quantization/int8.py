"""Linear layers and embeddings with int8 weights; activations are quantized at run time.

Weights are symmetric per output channel or word: w = q * scale with q in [-127, 127]. The inputs of a linear layer are
quantized at run time (dynamic quantization: Zafrir et al. 2019, section 3), each token by its own range (Yao et al.
2022, ZeroQuant, section 4.2: "token-wise"): x = low + q * step. So the result for a token does not depend on others.

Inputs have 7 bits, q in [0, 127]: x86 CPUs without VNNI add two products in 16 bits, and products of 8 bits saturate.
"""

import warnings
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.models.quantization import matrices

MOST = 127  # the largest magnitude of an int8 weight
STEPS = 127  # between the least and the greatest input of a token
LEAST = 1e-8  # the smallest range


def rounded(weight: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """A weight (N, K) as int8, with a scale per row, (N,), or one for the whole matrix, (1,)."""
    return torch.round(weight / scale[:, None]).clamp(-MOST, MOST).to(torch.int8)


def scales(weight: torch.Tensor) -> torch.Tensor:
    """The scale of each row of a weight (N, K), (N,): the largest magnitude of the row becomes 127."""
    return weight.abs().amax(dim=1).clamp(min=LEAST) / MOST


def ranges(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The least input of each token of (.., K), and the size of a step between its least and greatest, (.., 1) each."""
    low = x.amin(dim=-1, keepdim=True)
    return low, (x.amax(dim=-1, keepdim=True) - low).clamp(min=LEAST) / STEPS


class Int8Linear(nn.Module):
    """A linear layer (.., K) to (.., N) whose (N, K) weight is int8 with one scale per row, and its inputs 7 bits."""

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor, bias: torch.Tensor | None = None) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)
        self.register_buffer("bias", bias)
        self._packed: Any = None
        self._sums: torch.Tensor | None = None

    @classmethod
    def of(cls, linear: nn.Linear) -> "Int8Linear":
        """Round `linear`'s weight to int8."""
        weight = linear.weight.detach().float()
        scale = scales(weight)
        bias = None if linear.bias is None else linear.bias.detach().float().clone()
        return cls(rounded(weight, scale), scale, bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self._packed is None or self._sums is None:
            self._packed, self._sums = self._pack(), self.sums()
        low, step = ranges(x)
        kernel = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32
        product = kernel((x - low) / step, 1.0, 0, self._packed) * step + low * self._sums
        return product if self.bias is None else product + self.bias

    def sums(self) -> torch.Tensor:
        """The sum of each row of the weight, (N,): `low` of a token is multiplied by it."""
        return self.weight.float().sum(dim=1) * self.scale

    def _pack(self) -> Any:
        """The weight as torch's int8 kernel reads it."""
        points = torch.zeros(len(self.scale), dtype=torch.int64)
        with warnings.catch_warnings():
            # torch 2.13 deprecates quantized tensors, but they are the only way to call this kernel
            warnings.filterwarnings("ignore", "torch.quantize_per_tensor", UserWarning)
            quantized = torch._make_per_channel_quantized_tensor(self.weight, self.scale.double(), points, 0)
        return torch.ops.quantized.linear_prepack(quantized, None)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_packed": None, "_sums": None}  # the packed form depends on the CPU


class Int8Embedding(nn.Module):
    """An embedding whose (V, H) table is int8, with a scale per word, (V,), or one for the whole table, (1,)."""

    weight: torch.Tensor
    scale: torch.Tensor

    def __init__(self, weight: torch.Tensor, scale: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("weight", weight)
        self.register_buffer("scale", scale)

    @classmethod
    def of(cls, embedding: nn.Embedding) -> "Int8Embedding":
        """Round `embedding`'s table to int8, each word by itself."""
        weight = embedding.weight.detach().float()
        scale = scales(weight)
        return cls(rounded(weight, scale), scale)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids (..) to embeddings (.., H)."""
        scale = self.scale if len(self.scale) == 1 else self.scale[ids][..., None]
        return self.weight[ids].float() * scale


def quantize(model: PreTrainedModel) -> PreTrainedModel:
    """Replace every linear layer and embedding of `model` by its int8 form, in place."""
    for name, linear in matrices.linears(model).items():
        matrices.replace(model, name, Int8Linear.of(linear))
    for name, embedding in matrices.embeddings(model).items():
        matrices.replace(model, name, Int8Embedding.of(embedding))
    return model.eval()
