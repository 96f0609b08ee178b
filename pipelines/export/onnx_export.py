"""Export a model folder to ONNX with dynamic batch and length, and check that it agrees with torch."""

import json
import logging
import sys
import warnings
from pathlib import Path

import numpy as np
import torch
from torch import nn

from pipelines.checkpoints import folder as model_folder
from pipelines.core.errors import InputError
from pipelines.export import exact_rows, head_features, int8_layers
from pipelines.inference import runtimes
from pipelines.models import heads

NAMES = ("input_ids", "attention_mask", "token_type_ids")
SHAPES = ((1, 8), (3, 17), (8, 64))  # (batch, length) of the random inputs that parity is measured on
ROWS = 8  # the least number of random rows of each shape
EXACT, ROUNDED = 1e-4, 0.1  # the allowed difference of logits: of float models, and of models with int8 layers


class _Logits(nn.Module):
    """The model as a function of positional inputs."""

    def __init__(self, model: nn.Module, kind: str, names: tuple[str, ...]) -> None:
        super().__init__()
        self.model, self.kind, self.names = model, kind, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return heads.outputs(self.model, self.kind, dict(zip(self.names, inputs, strict=True)))


def export(folder: Path, out: Path, opset: int, tolerance: float | None = None) -> float:
    """Write model.onnx, the tokenizer and the task of `folder` into `out`; returns the difference of logits.

    Raises InputError if ONNX Runtime and torch differ by more than `tolerance` (see `parity`). The default is
    `allowed(model)`.
    """
    native = runtimes.Torch(folder)
    tolerance = tolerance or allowed(native.model)
    names = NAMES if native.token_types else NAMES[:2]
    _write(native, names, out / runtimes.ONNX_FILE, opset)
    native.task.save(out)
    model_folder.copy_tokenizer(folder, out)
    difference = parity(native, runtimes.Onnx(out))
    (out / "parity.json").write_text(json.dumps({"difference": difference, "tolerance": tolerance}) + "\n")
    if not difference <= tolerance:
        raise InputError(f"{folder}: ONNX and torch differ by {difference:.2e} in a logit; {tolerance:.2e} is allowed")
    return difference


def allowed(model: nn.Module) -> float:
    """The largest allowed difference between the logits of torch and ONNX Runtime for `model`."""
    return ROUNDED if int8_layers.is_rounded(model) else EXACT


def _write(native: runtimes.Torch, names: tuple[str, ...], path: Path, opset: int) -> None:
    import onnx
    from onnx_ir.passes.common import DeduplicateInitializersPass

    example = random_rows(native, 2, 16)
    inputs = tuple(torch.from_numpy(example[name]) for name in names)
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", min=2, max=native.positions)}
    model = _Logits(int8_layers.exportable(native.model.cpu()), native.task.kind, names).eval()
    exportable, outputs = head_features.added(exact_rows.exportable(model, *inputs), native.task.kind)
    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecations inside the exporter; `parity` checks the result
        program = torch.onnx.export(
            exportable,
            inputs,
            dynamo=True,
            opset_version=opset,
            input_names=list(names),
            output_names=outputs,
            dynamic_shapes=(tuple(axes for _ in names),),
            verbose=False,
        )
    assert program is not None
    DeduplicateInitializersPass(size_limit=sys.maxsize)(program.model)  # weights that layers share are written once
    proto = program.model_proto
    exact_rows.add_row_to_sums(proto)
    task = native.task
    facts = {"positions": native.positions, "vocab_size": native.vocab_size, "kind": task.kind, "labels": task.labels}
    for fact, value in (facts | {"batching": exact_rows.batching(model)}).items():
        proto.metadata_props.add(key=fact, value=json.dumps(value))
    for node in proto.graph.node:  # the exporter writes the paths of source files into every node
        del node.metadata_props[:]
        node.doc_string = ""
    onnx.save(proto, path)


def parity(native: runtimes.Torch, exported: runtimes.Onnx) -> float:
    """The largest difference of a logit on random rows of several lengths, some of them padded.

    If the model has int8 layers, each shape counts with its median row instead of its worst. Float noise rounds a
    number midway between two steps up or down, and this changes the rest of its row. torch differs from itself as much
    if its embeddings get noise of 1e-6 (benchmarks/rounding.py).
    """
    of_rows = np.median if int8_layers.is_rounded(native.model) else np.max
    return float(np.max([of_rows(_differences(native, exported, rows, length)) for rows, length in SHAPES]))


def _differences(native: runtimes.Torch, exported: runtimes.Onnx, rows: int, length: int) -> np.ndarray:
    """For each random row the largest difference of a logit; the model runs on batches of `rows`."""
    differences = []
    for number in range(-(-ROWS // rows)):
        batch = random_rows(native, rows, min(length, native.positions), number)
        apart = np.abs(native.logits(batch) - exported.logits(batch))
        differences.append(apart.reshape(len(apart), -1).max(axis=1))
    return np.concatenate(differences)


def random_rows(native: runtimes.Torch, rows: int, length: int, number: int = 0) -> runtimes.Inputs:
    """Random ids, seeded by `number`; each row is one token shorter than the row before, with at least two tokens."""
    rng = np.random.default_rng([rows * length, number])
    mask = (np.arange(length) < np.maximum(length - np.arange(rows), 2)[:, None]).astype(np.int64)
    ids = rng.integers(0, native.vocab_size, (rows, length))
    return {"input_ids": ids * mask, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
