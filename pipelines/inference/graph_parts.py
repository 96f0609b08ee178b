"""The two parts of an exported model: the encoder up to the features that the head reads, and the head above them.

The features are an output of the graph (pipelines.export.head_features), so ONNX Runtime optimizes each part alone.
"""

import hashlib
from pathlib import Path
from typing import Any

from pipelines.core.errors import InputError
from pipelines.inference.runtimes import FEATURES, LOGITS

Model = Any  # onnx.ModelProto


def head(model: Model, path: Path) -> Model:
    """The head of a model as a model of its own: features (B, F) to logits (B, C).

    Raises InputError if it reads something else of the graph too.
    """
    from onnx import helper

    graph = model.graph
    outputs = {value.name: value for value in graph.output}
    nodes, reads = [], {LOGITS}
    for node in reversed(graph.node):
        if reads.intersection(node.output) and FEATURES not in node.output:
            nodes.append(node)
            reads.update(node.input)
    weights = [tensor for tensor in graph.initializer if tensor.name in reads]
    computed = {name for node in nodes for name in node.output} | {tensor.name for tensor in weights}
    if others := reads - computed - {"", FEATURES}:
        raise InputError(
            f"{path}: no states can be stored: its head reads {', '.join(sorted(others))} beside the features"
        )
    part = helper.make_graph(nodes[::-1], "head", [outputs[FEATURES]], [outputs[LOGITS]], weights)
    whole = helper.make_model(part, opset_imports=model.opset_import, functions=model.functions)
    whole.ir_version = model.ir_version
    return whole


def encoder_digest(model: Model, path: Path) -> str:
    """The digest of all that computes the features: operators, their attributes, weights, and how they are connected.

    Names within the graph and the order of its nodes do not count. Raises InputError for a graph within the graph.
    """
    graph = model.graph
    digests = {"": b""}
    digests |= {value.name: _digest(b"input", value.name.encode()) for value in graph.input}
    digests |= {tensor.name: _of_tensor(tensor) for tensor in graph.initializer}
    for node in graph.node:
        operator = _digest(
            node.domain.encode(),
            node.op_type.encode(),
            _digest(*sorted(_of_attribute(attribute, path) for attribute in node.attribute)),
            *(digests[name] for name in node.input),
        )
        digests |= {name: _digest(operator, bytes([place])) for place, name in enumerate(node.output) if name}
    versions = sorted(f"{one.domain} {one.version}".encode() for one in model.opset_import)
    functions = sorted(one.SerializeToString(deterministic=True) for one in model.functions)
    return _digest(digests[FEATURES], *versions, *functions).hex()


def _digest(*parts: bytes) -> bytes:
    """A digest of parts, each after its length, so that no two lists of parts give the same bytes."""
    whole = hashlib.sha256()
    for part in parts:
        whole.update(len(part).to_bytes(8, "little"))
        whole.update(part)
    return whole.digest()


def _of_tensor(tensor: Any) -> bytes:
    from onnx import numpy_helper

    shape = " ".join(map(str, tensor.dims))
    return _digest(b"tensor", str(tensor.data_type).encode(), shape.encode(), numpy_helper.to_array(tensor).tobytes())


def _of_attribute(attribute: Any, path: Path) -> bytes:
    if attribute.HasField("g") or attribute.graphs:  # it may read names of the graph around it
        raise InputError(f"{path}: no states can be stored: {attribute.name} in its graph is another graph")
    if attribute.HasField("t"):
        return _digest(attribute.name.encode(), _of_tensor(attribute.t))
    plain = type(attribute)()
    plain.CopyFrom(attribute)
    plain.doc_string = ""
    return plain.SerializeToString(deterministic=True)
