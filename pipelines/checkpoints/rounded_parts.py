"""Checks that the tensors of a rounded layer in a file fit the layer.

torch's int8 kernels and numpy's bit functions do not check sizes: wrong sizes give wrong numbers or a crash.
"""

from typing import Any

import torch
from torch import nn

from pipelines.models.quantization import packed

Parts = dict[str, torch.Tensor]
Size = tuple[int, ...]


def require_int8(layer: nn.Module, parts: Parts, fixed: bool) -> None:
    """Raise ValueError unless `parts` are the int8 tensors of `layer`, a linear layer or an embedding.

    Args:
        fixed: whether the inputs have a fixed range; then the weight may have one scale for all rows.
    """
    rows, columns = _size(layer)
    one = [(1,)] if fixed or isinstance(layer, nn.Embedding) else []
    _require("weight", parts, torch.int8, (rows, columns))
    _require("scale", parts, torch.float32, (rows,), *one)
    if isinstance(layer, nn.Embedding):
        return
    if "bias" in parts or getattr(layer, "bias", None) is not None:
        _require("bias", parts, torch.float32, (rows,))
    if fixed:
        _require("input_scale", parts, torch.float32, (1,))
        _require("input_zero", parts, torch.uint8, (1,))


def packed_weight(layer: nn.Module, numbers: Any, parts: Parts) -> packed.PackedWeight:
    """The packed weight of `layer`; `numbers` is its entry in config.json. Raises ValueError if they do not fit."""
    if not (isinstance(numbers, list) and len(numbers) == 5 and all(type(number) is int for number in numbers)):
        raise ValueError("five whole numbers are expected: rows, columns, bits, rows and columns of a group")
    rows, columns, bits, high, wide = numbers
    if (rows, columns) != _size(layer):
        raise ValueError(f"it is {rows} x {columns}; {' x '.join(map(str, _size(layer)))} is expected")
    if not (1 <= bits <= 8 and high > 0 <= wide):
        raise ValueError(f"{bits} bits, groups of {high} x {wide}: not possible")
    groups = -(-rows // min(high, rows)), -(-columns // min(wide or columns, columns))
    _require("packed", parts, torch.uint8, (-(-rows * columns * bits // 8),))
    _require("step", parts, torch.float32, groups)
    _require("least", parts, torch.float32, groups)
    return packed.PackedWeight(packed.Grid(bits, high, wide), (rows, columns), **parts)


def _size(layer: nn.Module) -> Size:
    if not (isinstance(layer, nn.Linear | nn.Embedding) and layer.weight.dim() == 2):
        raise ValueError("it is neither a linear layer nor an embedding")
    return tuple(layer.weight.shape)


def _require(name: str, parts: Parts, dtype: torch.dtype, *sizes: Size) -> None:
    if name not in parts:
        raise ValueError(f"there is no {name}")
    found = parts[name]
    if found.dtype != dtype or tuple(found.shape) not in sizes:
        given, wanted = (f"{_word(kind)} {size}" for kind, size in ((found.dtype, (*found.shape,)), (dtype, sizes[0])))
        raise ValueError(f"its {name} is {given}; {wanted} is expected")


def _word(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
