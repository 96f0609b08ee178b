"""The int8 layers of a model in ONNX: the same integers, in operators that ONNX Runtime fuses.

ONNX Runtime's own quantizer would round the exported floats again; here the export keeps the integers of the model
folder. Weights are int8, inputs uint8. If inputs have 8 bits, products saturate on CPUs without VNNI: `onnx_precise`.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from pipelines.models.quantization import int8, matrices, qdq


class _Linear(nn.Module):
    """The tensors of both kinds of layers: the weight as (K, N) int8, its scale (N,) or (1,), the bias (N,)."""

    weight: torch.Tensor
    scale: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, layer: int8.Int8Linear | qdq.QdqLinear) -> None:
        super().__init__()
        self.register_buffer("weight", layer.weight.t().contiguous())
        self.register_buffer("scale", layer.scale.clone())
        self.register_buffer("bias", layer.bias)

    def plus_bias(self, product: torch.Tensor) -> torch.Tensor:
        return product if self.bias is None else product + self.bias


class Dynamic(_Linear):
    """An `Int8Linear` as QuantizeLinear and MatMulInteger: each token sets the range of its inputs."""

    one: torch.Tensor
    zero: torch.Tensor
    sums: torch.Tensor

    def __init__(self, layer: int8.Int8Linear) -> None:
        super().__init__(layer)
        self.register_buffer("one", torch.tensor(1.0))
        self.register_buffer("zero", torch.tensor(0, dtype=torch.uint8))
        self.register_buffer("sums", layer.sums())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, step = int8.ranges(x)
        rounding = ((x - low) / step, self.one, self.zero)
        numbers = torch.onnx.ops.symbolic("QuantizeLinear", rounding, dtype=torch.uint8, shape=x.shape)
        shape = (*x.shape[:-1], self.weight.shape[1])
        product = torch.onnx.ops.symbolic("MatMulInteger", (numbers, self.weight), dtype=torch.int32, shape=shape)
        return self.plus_bias(product.float() * self.scale * step + low * self.sums)


class Static(_Linear):
    """A linear layer as QuantizeLinear, DequantizeLinear and a float MatMul; ONNX Runtime computes it in integers."""

    input_scale: torch.Tensor
    input_zero: torch.Tensor

    def __init__(self, layer: qdq.QdqLinear) -> None:
        super().__init__(layer)
        self.register_buffer("input_scale", layer.input_scale.reshape(()).clone())
        self.register_buffer("input_zero", layer.input_zero.reshape(()).clone())
        self.scale = self.scale.expand(self.weight.shape[1]).contiguous()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        of = (self.input_scale, self.input_zero)
        numbers = torch.onnx.ops.symbolic("QuantizeLinear", (x, *of), dtype=torch.uint8, shape=x.shape)
        near = torch.onnx.ops.symbolic("DequantizeLinear", (numbers, *of), dtype=torch.float32, shape=x.shape)
        weight = torch.onnx.ops.symbolic(
            "DequantizeLinear",
            (self.weight, self.scale),  # without a zero point: it is 0
            {"axis": 1},
            dtype=torch.float32,
            shape=self.weight.shape,
        )
        return self.plus_bias(near @ weight)


def is_rounded(model: nn.Module) -> bool:
    """Return whether `model` has int8 layers: torch and ONNX Runtime then agree only to one quantization step."""
    return any(isinstance(part, int8.Int8Linear | int8.Int8Embedding | qdq.QdqLinear) for part in model.modules())


def exportable(model: nn.Module) -> nn.Module:
    """`model` with its int8 linear layers as ONNX operators; embeddings stay as they are."""
    return _with(model, {int8.Int8Linear: Dynamic, qdq.QdqLinear: Static})


def _with(model: nn.Module, forms: dict[type[nn.Module], Callable[[Any], nn.Module]]) -> nn.Module:
    """A copy of `model` with the layers of the types in `forms` replaced; `model` itself if it has none."""
    replacements = {name: forms[type(part)](part) for name, part in model.named_modules() if type(part) in forms}
    if not replacements:
        return model
    model = copy.deepcopy(model)
    for name, part in replacements.items():
        matrices.replace(model, name, part)
    return model
