"""Export a model so that the bits of a row's logits do not depend on the other rows of its batch.

ONNX Runtime multiplies a matrix of one row by another kernel than a matrix of several rows, and the last bits of the
result differ. A layer over tokens has the rows of all tokens, at least eight. A layer over features (B, H), such as the
classifier, has one row for a batch of one. Such a layer computes one more row here, so it never has a single one. So
does a sum over tokens, as of mean pooling: ONNX Runtime adds up the tokens of a single row in another order.
"""

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.inference.runtimes import ANY, PAIRS
from pipelines.models.quantization import matrices

SUMS = ("ReduceSum", "ReduceMean")
ZERO, ONE, LAST = "exact_rows_0", "exact_rows_1", "exact_rows_-1"  # names of constants in a graph


class OneRowMore(nn.Module):
    """A layer (B, H) to (B, N) that computes the first row twice and drops the copy."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.cat([x, x[:1]]))[:-1]


def exportable(model: nn.Module, *inputs: torch.Tensor) -> nn.Module:
    """A copy of `model` with `OneRowMore` around each layer that multiplies features (B, H) by a matrix.

    Args:
        inputs: an example of the model's inputs.
    """
    model = copy.deepcopy(model)
    for name in _over_features(model, inputs):
        matrices.replace(model, name, OneRowMore(model.get_submodule(name)))
    return model


def _over_features(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[str]:
    """The names of the layers that multiply (B, H) by their matrix."""
    names: dict[str, None] = {}

    def noting(name: str) -> Callable[[nn.Module, Any], None]:
        def note(layer: nn.Module, arguments: Any) -> None:
            if arguments and arguments[0].dim() == 2 and arguments[0].is_floating_point():
                names[name] = None

        return note

    layers = [(name, layer) for name, layer in model.named_modules() if _has_matrix(layer)]
    hooks = [layer.register_forward_pre_hook(noting(name)) for name, layer in layers]
    with torch.inference_mode():
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return list(names)


def _has_matrix(layer: nn.Module) -> bool:
    weight = getattr(layer, "weight", None)
    return isinstance(weight, torch.Tensor) and weight.dim() == 2


def add_row_to_sums(proto: Any) -> None:
    """Let each sum over the tokens (B, T, H) of an exported model have its first row twice, and drop the copy.

    Args:
        proto: onnx.ModelProto, which is changed.
    """
    from onnx import helper, numpy_helper, shape_inference

    graph, inferred = proto.graph, shape_inference.infer_shapes(proto).graph.value_info
    ranks = {value.name: len(value.type.tensor_type.shape.dim) for value in inferred}
    constants = {tensor.name: tensor for tensor in graph.initializer}
    nodes = []
    for node in graph.node:
        axes = constants.get(node.input[1]) if node.op_type in SUMS and len(node.input) > 1 else None
        if axes is None or ranks.get(node.input[0]) != 3 or numpy_helper.to_array(axes).tolist() != [1]:
            nodes.append(node)
            continue
        states, output = node.input[0], node.output[0]
        first, more, of_more = (f"{output}_{part}" for part in ("first", "more", "of_more"))
        node.input[0], node.output[0] = more, of_more
        nodes += [
            helper.make_node("Slice", [states, ZERO, ONE, ZERO], [first]),
            helper.make_node("Concat", [states, first], [more], axis=0),
            node,
            helper.make_node("Slice", [of_more, ZERO, LAST, ZERO], [output]),
        ]
    if len(nodes) > len(graph.node):
        for name, value in ((ZERO, 0), (ONE, 1), (LAST, -1)):
            graph.initializer.append(numpy_helper.from_array(np.array([value]), name))
    del graph.node[:]
    graph.node.extend(nodes)


def batching(model: nn.Module) -> str:
    """The batches that keep the rows of the exported model exact; see pipelines.inference.runtimes."""
    return PAIRS if any(isinstance(part, nn.RNNBase) for part in model.modules()) else ANY
