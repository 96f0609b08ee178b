"""The int8 layers of a model in ONNX: the same integers, in operators that ONNX Runtime fuses.

ONNX Runtime's own quantizer would round the exported floats again; here the export keeps the integers of the model
folder. Weights are int8, inputs uint8. On CPUs without VNNI their product saturates: see `onnx_precise`.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from pipelines.models.quantization import int8, matrices, qdq

STEPS = 255  # between the least and the greatest uint8


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
    """A linear layer as DynamicQuantizeLinear and MatMulInteger: each batch sets the range of its inputs."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        numbers, step, zero = torch.onnx.ops.symbolic_multi_out(
            "DynamicQuantizeLinear",
            (x,),
            dtypes=(torch.uint8, torch.float32, torch.uint8),
            shapes=(x.shape, (), ()),
        )
        shape = (*x.shape[:-1], self.weight.shape[1])
        sums = torch.onnx.ops.symbolic("MatMulInteger", (numbers, self.weight, zero), dtype=torch.int32, shape=shape)
        return self.plus_bias(sums.float() * (step * self.scale))


class Exact(nn.Module):
    """The computation of `Dynamic` in torch's floats. torch's int8 kernel is less exact on CPUs that saturate."""

    weight: torch.Tensor
    bias: torch.Tensor | None

    def __init__(self, layer: int8.Int8Linear) -> None:
        super().__init__()
        self.register_buffer("weight", layer.weight.float() * layer.scale[:, None])
        self.register_buffer("bias", layer.bias)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        low, high = x.amin().clamp(max=0), x.amax().clamp(min=0)
        step = ((high - low) / STEPS).clamp(min=1e-8)
        near = torch.fake_quantize_per_tensor_affine(x, step, torch.round(-low / step).int(), 0, STEPS)
        return nn.functional.linear(near, self.weight, self.bias)


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


def exact(model: nn.Module) -> nn.Module:
    """`model` with int8 linear layers computed in floats: the logits that its export should give on any CPU."""
    return _with(model, {int8.Int8Linear: Exact})


def _with(model: nn.Module, forms: dict[type[nn.Module], Callable[[Any], nn.Module]]) -> nn.Module:
    """A copy of `model` with the layers of the types in `forms` replaced; `model` itself if it has none."""
    replacements = {name: forms[type(part)](part) for name, part in model.named_modules() if type(part) in forms}
    if not replacements:
        return model
    model = copy.deepcopy(model)
    for name, part in replacements.items():
        matrices.replace(model, name, part)
    return model
