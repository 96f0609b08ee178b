"""Write a module as an ONNX file whose first axis, and a length, may have any size."""

import json
import logging
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import nn

from pipelines.export import exact_rows


def write(
    module: nn.Module,
    inputs: Mapping[str, torch.Tensor],
    outputs: Sequence[str],
    axes: Mapping[int, Any],
    path: Path,
    opset: int,
    facts: Mapping[str, Any],
) -> None:
    """Export `module` to the file `path`.

    Args:
        inputs: an example of each, by the names that they get.
        outputs: the names of the outputs.
        axes: the number of each axis of all inputs that may have another size, with its torch.export.Dim.
        facts: metadata, each written as JSON.
    """
    import onnx

    proto = _traced(module, inputs, outputs, axes, opset)
    exact_rows.add_row_to_sums(proto)
    for fact, value in facts.items():
        proto.metadata_props.add(key=fact, value=json.dumps(value))
    for node in proto.graph.node:  # the exporter writes the paths of source files into every node
        del node.metadata_props[:]
        node.doc_string = ""
    onnx.save(proto, path)


def _traced(
    module: nn.Module, inputs: Mapping[str, torch.Tensor], outputs: Sequence[str], axes: Mapping[int, Any], opset: int
) -> Any:
    """The onnx.ModelProto of a module."""
    from onnx_ir.passes.common import DeduplicateInitializersPass

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside the exporter; parity is checked on the result
        program = torch.onnx.export(
            module,
            tuple(inputs.values()),
            dynamo=True,
            opset_version=opset,
            input_names=list(inputs),
            output_names=list(outputs),
            dynamic_shapes=(tuple(dict(axes) for _ in inputs),),
            verbose=False,
        )
    assert program is not None
    DeduplicateInitializersPass(size_limit=sys.maxsize)(program.model)  # weights that layers share are written once
    return program.model_proto
