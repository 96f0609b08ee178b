"""Export a model folder to ONNX with dynamic batch and length, and check that it agrees with torch."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.checkpoints import folder as model_folder
from pipelines.core.errors import InputError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.export import encoder_modules, exact_rows, graph_file, head_features, int8_layers
from pipelines.inference import runtimes
from pipelines.inference.encoder_runtimes import MASK_HEAD_FILE, STATES, OnnxEncoder, TorchEncoder
from pipelines.models import backbones, heads

NAMES = ("input_ids", "attention_mask", "token_type_ids")
SHAPES = ((1, 8), (3, 17), (8, 64))  # (batch, length) of the random inputs that parity is measured on
LOGIT, STATE = "logit", "state"
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

    A pretrained encoder has no task: its model.onnx returns states (see pipelines.inference.encoder_runtimes), and
    their difference counts.

    Raises InputError if ONNX Runtime and torch differ by more than `tolerance` (see `parity`). The default is
    `allowed(model)`.
    """
    has_task = measured(folder) == LOGIT
    native = (
        runtimes.Torch(folder) if has_task else TorchEncoder.open(OpenedFolder(folder), accelerate=False, masked=True)
    )
    tolerance = tolerance or allowed(native.model)
    with _traceable(backbones.encoder(native.model)):
        _write(native, out, opset)
    model_folder.copy_tokenizer(folder, out)
    if isinstance(native, TorchEncoder):
        encoder = OnnxEncoder(out)
        difference = max(parity(native, encoder), _head_difference(native, encoder))
    else:
        difference = parity(native, runtimes.Onnx(out))
    (out / "parity.json").write_text(json.dumps({"difference": difference, "tolerance": tolerance}) + "\n")
    if not difference <= tolerance:
        what = f"differ by {difference:.2e} in a {measured(folder)}; {tolerance:.2e} is allowed"
        raise InputError(f"{folder}: ONNX and torch {what}")
    return difference


def measured(folder: Path) -> str:
    """The outputs of the model in `folder` that are compared: a logit of a task, or a state of an encoder."""
    return LOGIT if (folder / TASK_FILE).is_file() else STATE


@contextmanager
def _traceable(encoder: PreTrainedModel) -> Iterator[None]:
    """Let torch.export trace the encoder, inside the block.

    XLNet computes `1.0 - attention_mask` of integers, which is not traced. It takes the difference as `input_mask`.
    """

    def swap(module: nn.Module, args: tuple[Any, ...], inputs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        others = {name: tensor for name, tensor in inputs.items() if name != "attention_mask"}
        return args, others | {"input_mask": (1 - inputs["attention_mask"]).float()}

    if encoder.config.model_type != "xlnet":
        yield
        return
    hook = encoder.register_forward_pre_hook(swap, with_kwargs=True)
    try:
        yield
    finally:
        hook.remove()


def allowed(model: nn.Module) -> float:
    """The largest allowed difference between the logits of torch and ONNX Runtime for `model`."""
    return ROUNDED if int8_layers.is_rounded(model) else EXACT


def _write(native: runtimes.Torch, out: Path, opset: int) -> None:
    names, task = NAMES if native.token_types else NAMES[:2], native.task
    example = random_rows(native, 2, 16)
    inputs = {name: torch.from_numpy(example[name]) for name in names}
    axes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("length", min=2, max=native.positions)}
    facts = {"positions": native.positions, "vocab_size": native.vocab_size, "kind": task.kind, "labels": task.labels}
    model = int8_layers.exportable(native.model.cpu())
    path, exact = out / runtimes.ONNX_FILE, exact_rows.exportable
    if not isinstance(native, TorchEncoder):
        task.save(out)
        logits = _Logits(model, task.kind, names).eval()
        facts["batching"] = exact_rows.batching(logits)
        module, outputs = head_features.added(exact(logits, *inputs.values()), task.kind)
        graph_file.write(module, inputs, outputs, axes, path, opset, facts)
        return
    states = encoder_modules.States(backbones.encoder(model), names).eval()
    facts["batching"] = exact_rows.batching(states)
    graph_file.write(exact(states, *inputs.values()), inputs, [STATES], axes, path, opset, facts)
    if native.has_mask_head:
        of_two = _random_states(native, 2)
        head = exact(encoder_modules.MaskHead(model).eval(), of_two)
        masks = {0: torch.export.Dim("masks")}
        graph_file.write(head, {STATES: of_two}, [runtimes.LOGITS], masks, out / MASK_HEAD_FILE, opset, {})


def _random_states(native: TorchEncoder, count: int) -> torch.Tensor:
    """States of random rows, (count, H)."""
    states = native.logits(random_rows(native, count, 8))
    return torch.from_numpy(states[:, 1].copy())


def _head_difference(native: TorchEncoder, exported: OnnxEncoder) -> float:
    """The largest difference of a logit by the masked-token head, for one state and for several."""
    if not native.has_mask_head:
        return 0.0
    batches = [_random_states(native, count).numpy() for count in (1, ROWS)]
    return max(float(np.abs(native.piece_logits(rows) - exported.piece_logits(rows)).max()) for rows in batches)


def parity(native: runtimes.Torch, exported: runtimes.Onnx) -> float:
    """The largest difference of a logit, or of a state, on random rows of several lengths, some of them padded.

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
