"""Exported int8 models for CPUs whose int8 products saturate: weights become uint8 with the zero point 128.

An x86 CPU without VNNI adds two products of a uint8 and an int8 in 16 bits, so sums above 32,767 are cut off. Products
of two uint8 use a slower but exact instruction. The values of the weights stay the same. ONNX Runtime has an option
for this (`session.x64quantprecision`), but it fails if two layers share a weight (1.31.1). The layers of
`int8_layers.Dynamic` stay as they are: their inputs have 7 bits, and two products fit into 16 bits.
"""

from pathlib import Path
from typing import Any

import numpy as np

MIDDLE = 128
WEIGHT_OF = {"MatMulInteger": 1, "DequantizeLinear": 0}  # the index of the input that is the weight
ZERO_OF = {"MatMulInteger": 3, "DequantizeLinear": 2}  # the index of the input that is the weight's zero point


def model(path: Path) -> bytes:
    """The serialized ONNX model at `path`, with its int8 weights as uint8."""
    import onnx

    proto = onnx.load(path)
    weights = {tensor.name: tensor for tensor in proto.graph.initializer if tensor.data_type == onnx.TensorProto.INT8}
    eight_bits = {node.output[0] for node in proto.graph.node if node.op_type == "DynamicQuantizeLinear"}
    shifted = {}
    for node in proto.graph.node:
        at = WEIGHT_OF.get(node.op_type)
        if at is None or node.input[at] not in weights:
            continue
        if node.op_type == "MatMulInteger" and node.input[0] not in eight_bits:
            continue
        name = node.input[at]
        shifted[name] = True
        per_row = node.op_type == "DequantizeLinear"
        zero = np.full(weights[name].dims[1] if per_row else (), MIDDLE, np.uint8)
        zero_name = f"{name}.zero.{node.op_type}"
        if zero_name not in {tensor.name for tensor in proto.graph.initializer}:
            proto.graph.initializer.append(onnx.numpy_helper.from_array(zero, zero_name))
        node.input.extend([""] * (ZERO_OF[node.op_type] + 1 - len(node.input)))
        node.input[ZERO_OF[node.op_type]] = zero_name
    for name in shifted:
        _shift(weights[name])
    return bytes(proto.SerializeToString())


def _shift(weight: Any) -> None:
    """Change an int8 tensor in place to uint8, by adding 128."""
    import onnx

    numbers = onnx.numpy_helper.to_array(weight).astype(np.int16) + MIDDLE
    weight.CopyFrom(onnx.numpy_helper.from_array(numbers.astype(np.uint8), weight.name))
