"""The runtimes of an encoder: numpy inputs (B, T) to the last states of all tokens, float32 (B, T, H).

An encoder's folder is opened by torch, its export by ONNX Runtime. An export has no task.json. It is `model.onnx`,
whose output is `states`, and `mask_head.onnx` if the encoder has a masked-token head.
"""

import copy
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np

from pipelines.core.errors import InputError, UsageError, choices, one_line
from pipelines.core.opened_folder import Folder, OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.core.task import Task
from pipelines.inference import runtimes
from pipelines.inference.runtimes import FP32, ONNX_FILE

EMBEDDING, FILL_MASK = "embedding", "fill_mask"  # what states are for: kinds of an encoder's rows
STATES = "states"  # the output of an exported encoder
MASK_HEAD_FILE = "mask_head.onnx"  # `states` (N, H) to `logits` (N, V)


class Encoder(runtimes.Runtime, Protocol):
    has_mask_head: bool

    def of_kind(self, kind: str) -> Self:
        """The same encoder, whose task has this kind; both share their weights."""

    def piece_logits(self, states: np.ndarray) -> np.ndarray:
        """The logits of the vocabulary, (N, V), by the masked-token head, given states (N, H)."""


class TorchEncoder(runtimes.Torch):
    """The encoder inside a model in torch, on a GPU if there is one."""

    has_mask_head = False

    @classmethod
    def open(cls, folder: OpenedFolder, accelerate: bool = True, precision: str = FP32, masked: bool = False) -> Self:
        """The encoder in `folder`.

        Args:
            masked: with its masked-token head, if it has one.
        """
        from pipelines.acceleration import apply
        from pipelines.models import backbones

        model = _with_head(folder) if masked else None
        has_mask_head = model is not None
        model = _encoder(folder) if model is None else model
        if accelerate:
            apply.to_predictions(backbones.encoder(model))
        runtime = cls.of(model, Task(folder.path.name, EMBEDDING))
        runtime.precision, runtime.has_mask_head = precision, has_mask_head
        return runtime

    def _take(self, model: Any, task: Task) -> None:
        super()._take(model, task)
        if self.device.type == "cpu":  # twice the time of batches, but the same bits in any batch
            self.batching = runtimes.ALONE

    def of_kind(self, kind: str) -> Self:
        twin = copy.copy(self)
        twin.task = Task(self.task.name, kind)
        return twin

    def logits(self, inputs: runtimes.Inputs) -> np.ndarray:
        import torch

        from pipelines.acceleration import precision
        from pipelines.models import backbones

        encoder = backbones.encoder(self.model)
        with torch.inference_mode(), precision.autocast(self.precision):
            tensors = {name: torch.from_numpy(array).to(self.device) for name, array in inputs.items()}
            return encoder(**backbones.inputs(encoder, tensors)).last_hidden_state.float().cpu().numpy()

    def piece_logits(self, states: np.ndarray) -> np.ndarray:
        import torch

        from pipelines.models import backbones

        with torch.inference_mode():
            return backbones.mlm_logits(self.model, torch.from_numpy(states).to(self.device)).float().cpu().numpy()


class OnnxEncoder(runtimes.Onnx):
    """An exported encoder in ONNX Runtime, on the CPU."""

    output = STATES

    def __init__(self, folder: Folder, threads: int = 0) -> None:
        super().__init__(folder, threads=threads)
        path = folder / MASK_HEAD_FILE
        self.has_mask_head = path.is_file()
        if self.has_mask_head:
            self._open_head(path)

    def _open_head(self, path: Path) -> None:
        """Open the masked-token head. Raises InputError if it does not take this encoder's states, or is damaged."""
        ids = np.ones((2, 2), np.int64)
        states = self.logits({"input_ids": ids, "attention_mask": ids, "token_type_ids": np.zeros_like(ids)})
        try:
            self._head = self.open_session(path)
            logits = self.piece_logits(states[:, 0])
        except Exception as error:  # onnxruntime's own share no class
            raise InputError(f"{path}: not the head of this encoder ({one_line(error)}); export it again") from None
        if (width := logits.shape[1]) != self.vocab_size:
            raise InputError(f"{path}: it has {width:,} pieces, the encoder {self.vocab_size:,}; export it again")
        if not np.isfinite(logits).all():
            raise InputError(f"{path}: it returns NaN or infinity; its weights are damaged, export it again")

    def _task(self, folder: OpenedFolder) -> Task:
        return Task(folder.path.name, EMBEDDING)

    def of_kind(self, kind: str) -> Self:
        twin = copy.copy(self)
        twin.task = Task(self.task.name, kind)
        return twin

    def piece_logits(self, states: np.ndarray) -> np.ndarray:
        assert self.has_mask_head, "an encoder without a masked-token head fills no mask"
        logits: np.ndarray = self._head.run([runtimes.LOGITS], {STATES: states})[0]
        return logits


def is_exported(folder: Folder) -> bool:
    """Return whether a folder is the export of an encoder."""
    return (folder / ONNX_FILE).is_file() and not (folder / TASK_FILE).is_file()


def load(
    folder: Folder,
    runtime: str = "",
    accelerate: bool = True,
    threads: int = 0,
    precision: str = FP32,
    masked: bool = False,
) -> Encoder:
    """Load the encoder in `folder`, a pretrained or fine-tuned model's or an export.

    Args:
        runtime: "torch" or "onnx"; by default onnx for an export, else torch.
        masked: with its masked-token head, if it has one.

    Raises InputError if the folder is not one for `runtime`.
    """
    folder, exported = OpenedFolder.of(folder), is_exported(folder)
    runtime = runtime or ("onnx" if exported else "torch")
    if runtime not in runtimes.RUNTIMES:
        raise UsageError(choices("runtime", runtime, runtimes.RUNTIMES))
    runtimes.require_precision(precision, runtime, folder)
    if exported and runtime == "torch":
        raise InputError(f"{folder}: it is an export, which torch does not open; name the folder that it was made of")
    if not exported and runtime == "onnx":
        raise InputError(f"{folder}: it is no export of an encoder; the export stage makes one of a pretrained encoder")
    return OnnxEncoder(folder, threads) if exported else TorchEncoder.open(folder, accelerate, precision, masked)


def _encoder(folder: OpenedFolder) -> Any:
    """The encoder of a pretrained or fine-tuned model's folder, in eval mode."""
    from transformers import AutoModel

    from pipelines.checkpoints import folder as model_folder
    from pipelines.checkpoints import formats, loading, pretrained
    from pipelines.models import backbones

    pretrained.family(folder.path)
    if (folder / TASK_FILE).is_file():
        return backbones.encoder(model_folder.load_tuned(folder)[0])
    form = formats.of_config(folder.config)
    model = form.load(folder, AutoModel) if form.name else loading.with_encoder(AutoModel, folder)[0]
    return backbones.encoder(model).eval()


def _with_head(folder: OpenedFolder) -> Any:
    """The encoder in `folder` with its masked-token head, in eval mode; None if the folder has no such head."""
    from transformers import AutoModelForMaskedLM

    from pipelines.checkpoints import formats, loading, pretrained
    from pipelines.models import backbones

    head = backbones.BACKBONES[pretrained.family(folder.path)].mlm_head
    if not head or (folder / TASK_FILE).is_file() or formats.of_config(folder.config).name:
        return None
    model, random = loading.opened(AutoModelForMaskedLM, folder)
    loading.require_whole(folder, {name for name in random if not name.startswith(head)})
    return None if random else model.eval().requires_grad_(False)
