"""Encoder states: for each row the features that an exported model's head reads, and answers made from them alone.

A version with the same encoder and another head answers rows whose states are there without running the encoder. The
answers have the bits of a full run.
"""

import hashlib
from functools import cached_property
from importlib.metadata import version
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core import cpu, provenance
from pipelines.core.canonical_json import canonical
from pipelines.core.errors import InputError
from pipelines.core.opened_folder import Folder, OpenedFolder
from pipelines.inference import decoding, graph_parts, onnx_precise, runtimes
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import CASCADE_FILE, FEATURES, LOGITS, ONNX_FILE, VECTOR_KINDS
from pipelines.text import protocol

FACTS = ("kind", "positions", "vocab_size", "batching")  # of the graph's metadata: what decides on an encoder's inputs
LIBRARIES = ("bertline", "onnxruntime", "tokenizers")  # whose releases may change bits


class DividedModel:
    """An exported model in two parts: the whole that also returns states, and the head alone.

    Raises InputError if the model is not exported, its head does not read one vector a row, or its states do not have
    the digest `expected`, if one is given.
    """

    def __init__(self, predictor: Predictor, expected: str = "") -> None:
        proto = _exported(predictor.folder)
        if expected and _digest(predictor.folder, proto) != expected:
            raise InputError(
                f"{predictor.folder}: its encoder states would be others here than where the job began, on another "
                "processor or with other releases of libraries; score into another folder"
            )
        assert isinstance(predictor.runtime, runtimes.Onnx)
        self.predictor, self.runtime = predictor, predictor.runtime
        self.width = _width(proto)
        self._head = self.runtime.open_session(_head_of(predictor.folder, proto))

    def predict(self, rows: pa.Table) -> tuple[pa.Table, np.ndarray]:
        """Predictions for n rows by the whole model, and their states (n, F) float32."""
        encoded = self.predictor.encode(rows)
        (outputs,) = self.predictor.forward([encoded], self._both)
        both = np.array(outputs, np.float32).reshape(rows.num_rows, -1) if outputs else self._none
        states, logits = np.ascontiguousarray(both[:, : self.width]), both[:, self.width :]
        return self.predictor.decode(rows, encoded, list(logits)), states

    def answer(self, rows: pa.Table, states: np.ndarray) -> pa.Table:
        """Predictions for n rows by the head alone, given their states (n, F)."""
        (logits,) = self._head.run([LOGITS], {FEATURES: states})
        runtimes.require_finite(logits)
        return decoding.FOR_KIND[self.predictor.task.kind](rows, pa.record_batch({}), list(logits), self.predictor.task)

    def _both(self, inputs: runtimes.Inputs) -> np.ndarray:
        """The states and the logits of a batch, side by side: (B, F + C)."""
        return np.concatenate(self.runtime.outputs(inputs, FEATURES, LOGITS), axis=1)

    @cached_property
    def _none(self) -> np.ndarray:
        return np.zeros((0, self.width), np.float32)


def digest(folder: Folder) -> str:
    """The digest of all that decides on the states of the exported model in `folder`; models that share it share them.

    It covers the encoder's graph and weights, the tokenizer's files, the releases of libraries, and this machine's CPU.
    Raises InputError if the model has no states, see `DividedModel`.
    """
    folder = OpenedFolder.of(folder)
    return _digest(folder, _exported(folder))


def width(folder: Folder) -> int:
    """The numbers of a row's state. Raises InputError if the model in `folder` has no states."""
    return _width(_exported(OpenedFolder.of(folder)))


def _exported(folder: OpenedFolder) -> Any:
    """The graph of an exported model, as onnx.ModelProto."""
    import onnx

    if (folder / CASCADE_FILE).is_file():
        raise InputError(f"{folder}: it is a cascade, and states are those of one model; score it without them")
    if not (folder / ONNX_FILE).is_file():
        raise InputError(f"{folder}: it has no {ONNX_FILE}, and states are those of an exported model; export it first")
    if folder.task.kind not in VECTOR_KINDS:
        raise InputError(
            f"{folder}: a head for rows of kind {folder.task.kind} reads more than one vector a row, so no states can "
            f"be stored; kinds with states are {', '.join(VECTOR_KINDS)}"
        )
    proto = onnx.load(str(folder / ONNX_FILE))
    if FEATURES not in {value.name for value in proto.graph.output}:
        raise InputError(
            f"{folder / ONNX_FILE}: an earlier release exported it, without the features that its head reads; "
            "export and register it again"
        )
    return proto


def _width(proto: Any) -> int:
    features = next(value for value in proto.graph.output if value.name == FEATURES)
    return int(features.type.tensor_type.shape.dim[1].dim_value)


def _head_of(folder: OpenedFolder, proto: Any) -> bytes:
    path = folder / ONNX_FILE
    if cpu.saturates():
        proto.ParseFromString(onnx_precise.model(path))
    return bytes(graph_parts.head(proto, path).SerializeToString())


def _digest(folder: OpenedFolder, proto: Any) -> str:
    metadata = {entry.key: entry.value for entry in proto.metadata_props}
    files = [name for name in protocol.FILES if (folder / name).is_file()]
    facts = {
        "graph": graph_parts.encoder_digest(proto, folder / ONNX_FILE),
        "facts": {name: metadata.get(name, "") for name in FACTS},
        "tokenizer": {name: provenance.sha256(folder / name) for name in files},
        "libraries": {name: version(name) for name in LIBRARIES},
        "cpu": cpu.fingerprint(),
    }
    return hashlib.sha256(canonical(facts)).hexdigest()
