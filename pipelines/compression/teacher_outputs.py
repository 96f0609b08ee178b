"""The teacher's outputs for the training rows: computed once, without dropout, and kept until the stage succeeds.

The outputs are stored in files and found by the number of a row, so the order of batches does not matter. Logits are
always stored. Hidden states and attention are stored in float16, if they fit into `resources.cache_gb` and into the
range of float16. If not, or if workers on other machines cannot read the files, the teacher runs again at every step.
"""

import copy
import json
import math
import os
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.acceleration import frozen_features
from pipelines.acceleration.precision import autocast, overflows
from pipelines.compression import states
from pipelines.compression.context import Context
from pipelines.core import json_file
from pipelines.core.progress import say
from pipelines.core.ragged import positions
from pipelines.entries.parts.fit import Fit
from pipelines.models import unpickled
from pipelines.models.batch import Batch
from pipelines.training.batches import RowBatches
from pipelines.training.distributed import FitOptions
from pipelines.training.losses import Sums

FILE = "outputs.json"  # written after all arrays
MARK = "teacher."  # prefix of the teacher's tensors in a batch

TeacherOutputs = dict[str, torch.Tensor]  # "logits", "first.2", "hidden.0", "queries.4", ...: see `OutputRequest`
Loss = Callable[[nn.Module, Batch, TeacherOutputs], Sums]


@dataclass(frozen=True)
class OutputRequest:
    """The outputs that a loss reads besides logits. Layer 0 is the embeddings, layer 1 the lowest layer.

    They are tensors of a batch: first.N (B, H), hidden.N (B, T, H), queries.N and keys.N (B, T, h * d). For rows of
    several choices they are (B, choices, ...).
    """

    first: tuple[int, ...] = ()  # layers whose state of the first token is read
    hidden: tuple[int, ...] = ()  # layers whose states of all tokens are read
    attention: tuple[int, ...] = ()  # layers whose queries and keys are read


def told(teacher: nn.Module, kind: str, request: OutputRequest, batch: Batch) -> TeacherOutputs:
    """The outputs of the teacher, which must be in eval mode, for the rows of a batch."""
    if request == OutputRequest():
        return {"logits": states.logits(teacher, kind, batch)}
    layer_states = states.see(teacher, kind, batch, attention=bool(request.attention))
    rows = batch["input_ids"].shape[:-1]  # (B,), or (B, choices)
    outputs = {"logits": layer_states.logits}
    outputs |= {f"first.{layer}": layer_states.hidden[layer][:, 0].unflatten(0, rows) for layer in request.first}
    outputs |= {f"hidden.{layer}": layer_states.hidden[layer].unflatten(0, rows) for layer in request.hidden}
    for layer in request.attention:
        pair = zip(("queries", "keys"), layer_states.attention[layer - 1], strict=True)
        outputs |= {f"{name}.{layer}": part.transpose(1, 2).flatten(2).unflatten(0, rows) for name, part in pair}
    return outputs


@dataclass(frozen=True)
class Array:
    """One stored array, with an entry for each training row or for each token of these rows."""

    shape: tuple[int, ...]
    kind: str  # the dtype of its numbers
    tokens: bool
    file: str = ""  # every process opens it
    inside: np.ndarray | None = field(default=None, compare=False)  # the array itself, if workers cannot read the file

    @property
    def size_bytes(self) -> int:
        return math.prod(self.shape) * np.dtype(self.kind).itemsize

    def open(self) -> np.ndarray:
        return np.memmap(self.file, self.kind, "r", shape=self.shape) if self.inside is None else self.inside

    def of(self, data: Any, rows: np.ndarray, mask: torch.Tensor) -> torch.Tensor:
        """The entries of these rows: (B, ...), or padded like their `mask`."""
        if not self.tokens:
            return torch.from_numpy(np.asarray(self.open()[rows]))
        values = torch.zeros(*mask.shape, *self.shape[1:], dtype=torch.from_numpy(np.zeros(0, self.kind)).dtype)
        values[mask.bool()] = torch.from_numpy(np.asarray(self.open()[_places(data, rows)]))
        return values


class TeacherBatches:
    """The batches of `inner` with the teacher's stored outputs for each row."""

    def __init__(self, inner: RowBatches, arrays: dict[str, Array]) -> None:
        self.inner, self.arrays, self.data, self.pad_id = inner, arrays, inner.data, inner.pad_id

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, step: int) -> Batch:
        return self.collate(self.rows(step))

    def collate(self, rows: np.ndarray) -> Batch:
        batch = self.inner.collate(rows)
        targets = {
            MARK + name: array.of(self.data, rows, batch["attention_mask"]) for name, array in self.arrays.items()
        }
        return batch | targets

    def rows(self, step: int) -> np.ndarray:
        return self.inner.rows(step)

    def fingerprint(self) -> str:
        """The fingerprint of `inner`; the key of a checkpoint already includes the teacher (`distributed.fitting`)."""
        return self.inner.fingerprint()


@dataclass(frozen=True)
class DistilledLoss:
    """A loss for the training loop, made from a loss that also reads the teacher's outputs."""

    loss: Loss
    kind: str
    asked: OutputRequest
    teacher: PreTrainedModel | None  # None if the batches hold all requested outputs

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.teacher is not None:
            unpickled.note(self.teacher)

    def __call__(self, model: nn.Module, batch: Batch, step: int) -> Sums:
        inputs = {name: tensor for name, tensor in batch.items() if not name.startswith(MARK)}
        targets = {name.removeprefix(MARK): tensor.float() for name, tensor in batch.items() if name.startswith(MARK)}
        if self.teacher is not None:
            with torch.no_grad():
                there: Any = self.teacher  # `to` of transformers is not typed for a device
                now = told(there.to(inputs["input_ids"].device), self.kind, self.asked, inputs)
            targets = {name: tensor.float() for name, tensor in now.items()} | targets
        return self.loss(model, inputs, targets)


@dataclass(frozen=True)
class Distillation:
    """A teacher whose outputs are ready; trains a student on them."""

    context: Context
    asked: OutputRequest
    arrays: dict[str, Array]
    again: bool  # whether the teacher runs at every step

    def train(
        self,
        model: nn.Module,
        loss: Loss,
        params: Fit,
        scored: bool = True,
        logits_only: bool = False,
        **options: Unpack[FitOptions],
    ) -> Any:
        """Call `context.fit` with a loss that reads the teacher's outputs.

        Args:
            scored: whether to keep the weights with the best score on `dev`, if there is such a split.
            logits_only: whether `loss` reads only logits, of the student and of the teacher.
            options: further arguments of `context.fit`.
        """
        context, kind = self.context, self.context.task.kind
        ours: FitOptions = {"kind": kind if logits_only else ""}
        if scored and context.watch:
            ours |= {"watch": context.watch, "select": context.task.metric}
        arrays = {name: array for name, array in self.arrays.items() if name == "logits" or not logits_only}
        teacher = context.teacher if self.again and not logits_only else None
        taught = DistilledLoss(loss, kind, self.asked, teacher)
        lessons = TeacherBatches(context.data.batches(params), arrays)
        return context.fit(model, taught, lessons, params, **(ours | options))


def ask(context: Context, request: OutputRequest | None = None) -> Distillation:
    """Compute and store the teacher's logits and, if there is room, all outputs that `request` names."""
    request = request or OutputRequest()
    context.teacher.eval().requires_grad_(False)
    remote, resources = context.fit.remote, context.fit.resources
    arrays = _wanted(context, request)
    needed = sum(array.size_bytes for array in arrays.values())
    again = len(arrays) > 1 and (remote or needed > resources.cache_gb * 1e9)
    if again:
        say(f"the teacher's states take {needed / 1e9:.1f} GB, or cannot be read; the teacher runs at every step")
    elif not _keep(context, request, arrays):
        say("the teacher's states have numbers too large for float16; the teacher runs at every step")
        again = True
    if again:
        arrays = {"logits": arrays["logits"]}
        _keep(context, OutputRequest(), arrays)
    if remote:
        arrays = {name: replace(array, inside=np.array(array.open())) for name, array in arrays.items()}
    return Distillation(context, request, arrays, again)


def _wanted(context: Context, request: OutputRequest) -> dict[str, Array]:
    """The arrays to store; one row determines their widths.

    A copy of the teacher computes this row: transformers adds hooks to a model that returns hidden states, and such a
    model cannot be sent to workers.
    """
    data, kind = context.data.train, context.task.kind
    single_row = RowBatches(data, 1, 1, 0, context.data.pad_id).collate(np.arange(1))
    with torch.inference_mode():
        outputs = told(copy.deepcopy(context.teacher).cpu(), kind, request, single_row)
    arrays = {}
    for name, tensor in outputs.items():
        tokens = kind in ("span", "tagging") if name == "logits" else not name.startswith("first")
        shape = (len(data.ids), tensor.shape[-1]) if tokens else (len(data), *tensor.shape[1:])
        file = (context.cache / name).resolve()
        arrays[name] = Array(shape, "float32" if name == "logits" else "float16", tokens, str(file))
    return arrays


@torch.inference_mode()
def _keep(context: Context, request: OutputRequest, arrays: dict[str, Array]) -> bool:
    """Write the arrays, unless an earlier run finished them; return False if a number is too large for its array."""
    about = {name: [*array.shape, array.kind] for name, array in arrays.items()}
    done: Path = context.cache / FILE
    if _whole(done, about, arrays):
        return True
    context.cache.mkdir(parents=True, exist_ok=True)
    done.unlink(missing_ok=True)  # an earlier request may have written the same files, which are emptied now
    files = {
        name: frozen_features.reserved(Path(array.file), array.kind, array.shape) for name, array in arrays.items()
    }
    data, teacher = context.data.train, context.teacher
    for rows, batch in frozen_features.read_through(
        teacher, RowBatches(data, 1, 1, 0, context.data.pad_id), "the teacher's outputs"
    ):
        with autocast(context.fit.resources.precision):
            outputs = told(teacher, context.task.kind, request, batch)
        for name, array in arrays.items():
            tensor = (outputs[name][batch["attention_mask"].bool()] if array.tokens else outputs[name]).float()
            if overflows(tensor, array.kind):
                return False
            files[name][_places(data, rows) if array.tokens else rows] = tensor.cpu().numpy()
    for file in files.values():
        file.flush()
    aside = done.with_suffix(".partial")
    aside.write_text(json.dumps(about))
    os.replace(aside, done)
    return True


def _whole(done: Path, about: dict[str, list[Any]], arrays: dict[str, Array]) -> bool:
    """Return whether `done` notes that an earlier run finished these arrays, and the files have their full size."""
    known = json_file.cached(done)
    if any(known.get(name) != noted for name, noted in about.items()):
        return False
    files = [(Path(array.file), array.size_bytes) for array in arrays.values()]
    return all(file.is_file() and file.stat().st_size == max(1, size) for file, size in files)


def _places(data: Any, rows: np.ndarray) -> np.ndarray:
    """The places of all tokens of these rows, in order."""
    sequences = (rows[:, None] * data.choices + np.arange(data.choices)).reshape(-1)
    starts = data.offsets[sequences]
    return positions(starts, data.offsets[sequences + 1] - starts)
