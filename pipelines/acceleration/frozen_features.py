"""Frozen features: layers that do not train run once, and their outputs are stored on disk.

A frozen layer gives a row the same states in every epoch, because it runs without dropout (see
`strategies.train_mode`). States are stored in float16, two bytes per dimension of a token. If only the head trains and
reads one vector per row, that vector is stored instead, in float32. Dropout then applies to the vector, not to the
tokens that it is computed from.
"""

import math
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import nn

from pipelines.acceleration import onednn_linear, sequence_packing
from pipelines.acceleration.precision import autocast, overflows
from pipelines.acceleration.varlen_attention import sent
from pipelines.core.progress import progress, say
from pipelines.core.ragged import by_length, positions
from pipelines.core.resources import Resources
from pipelines.models import backbones
from pipelines.models.batch import Batch
from pipelines.models.features import FeaturesForSequenceClassification

# tokens of a padded batch while the states are computed: few enough for a CPU's cache, and enough that a GPU does not
# wait for the host
BUILD_TOKENS = {"cpu": 1024, "cuda": 32768}
GPU_SHARE = 0.4  # the largest share of a GPU's free memory that states may take

Watch = Callable[[nn.Module], dict[str, float]]  # scores of the model in its current state


class Rows(Protocol):
    """Batches of rows, such as `training.batches.RowBatches`."""

    data: Any  # an Encoded

    def __len__(self) -> int: ...

    def __getitem__(self, step: int) -> Batch: ...

    def rows(self, step: int) -> np.ndarray: ...

    def collate(self, rows: np.ndarray) -> Batch: ...

    def fingerprint(self) -> str: ...


class InputStates(nn.Module):
    """Replaces the embeddings and returns its input: the states of a lower layer."""

    def forward(self, *arguments: Any, **named: Any) -> torch.Tensor:
        return next(x for x in (*arguments, *named.values()) if torch.is_tensor(x) and x.is_floating_point())


class _Kept:
    """The batches of `inner`, with frozen features from a file instead of token ids."""

    def __init__(self, inner: Rows, file: Path, width: int, digest: str) -> None:
        self.inner, self.file, self.width, self.digest = inner, file, width, digest

    def __len__(self) -> int:
        return len(self.inner)

    def rows(self, step: int) -> np.ndarray:
        return self.inner.rows(step)

    def fingerprint(self) -> str:
        return f"{self.inner.fingerprint()} {self.digest}"


class FrozenStates(_Kept):
    """Batches with states (B, T, H) as inputs_embeds."""

    _there: torch.Tensor | None = None  # all states on this process's GPU

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_there"}

    def __getitem__(self, step: int) -> Batch:
        batch, data, rows = self.inner[step], self.inner.data, self.inner.rows(step)
        starts = data.offsets[rows]
        inside = batch["attention_mask"].bool()
        places = positions(starts, data.offsets[rows + 1] - starts)
        states = np.memmap(self.file, np.float16, "r", shape=(len(data.ids), self.width))  # each process opens it
        if self._on_gpu(states):
            padded = self._padded_there(places, inside)
        else:
            padded = torch.zeros(*inside.shape, self.width)
            padded[inside] = torch.from_numpy(states[places].astype(np.float32))
        return {"inputs_embeds": padded, **{name: tensor for name, tensor in batch.items() if name != "input_ids"}}

    def _on_gpu(self, states: np.memmap) -> bool:
        """Return whether the states are in a GPU's memory; copy them there if they fit.

        Reading them from the host would take longer than computing the layers.
        """
        first_time = self._there is None and torch.cuda.is_available()
        if first_time and states.nbytes < GPU_SHARE * torch.cuda.mem_get_info()[0]:
            self._there = torch.from_numpy(np.array(states)).cuda()
        return self._there is not None

    def _padded_there(self, places: np.ndarray, inside: torch.Tensor) -> torch.Tensor:
        """The states at `places`, put where `inside` (B, T) is True, as (B, T, H) float32 on the GPU."""
        assert self._there is not None
        device = self._there.device
        spots = sent(torch.from_numpy(np.flatnonzero(inside.numpy())), device)
        states = self._there.index_select(0, sent(torch.from_numpy(places), device)).float()
        padded = states.new_zeros(inside.numel(), self.width)
        return padded.index_copy_(0, spots, states).unflatten(0, inside.shape)


class FrozenVectors(_Kept):
    """Batches with one vector per row as pooled (B, F)."""

    def __getitem__(self, step: int) -> Batch:
        data, rows = self.inner.data, self.inner.rows(step)
        vectors = np.memmap(self.file, np.float32, "r", shape=(len(data), self.width))
        assert data.labels is not None
        return {"pooled": torch.from_numpy(vectors[rows]), "labels": torch.from_numpy(data.labels[rows])}


@contextmanager
def kept(
    model: nn.Module, batches: Rows, place: Path | None, resources: Resources, watch: Watch | None = None
) -> Iterator[tuple[Any, Watch | None]]:
    """Inside the block, `model` has only the layers that train; yields batches of their inputs, and a `watch` to match.

    If nothing would be gained, or the states would take more space than `resources` allows, both stay as they are.

    Args:
        place: a folder for the states; None if workers cannot read this machine's files.
    """
    data, precision = batches.data, resources.precision
    # workers in other processes lack the layers that `watch` needs
    readable = place and not (watch and resources.workers)
    width = _kept_width(model, data, resources.cache_gb * 1e9 if readable else 0)
    if not (width and place):
        yield batches, watch
        return
    place.mkdir(parents=True, exist_ok=True)
    file, frozen = place / "states", _frozen_layers(model)
    try:
        if _reads_one_vector(model):
            digest = backbones.digest(backbones.encoder(model))
            _build_pooled(model, batches, file, width, precision)
            yield FrozenVectors(batches, file.resolve(), width, digest), watch
        else:
            digest = backbones.digest(*backbones.embeddings(model), *list(backbones.layers(model))[:frozen])
            if not _build(model, batches, frozen, file, width, precision):
                say(f"the states of {frozen} frozen layers have numbers too large for float16; not stored")
                yield batches, watch
                return
            with ExitStack() as off:
                off.enter_context(_without(model, frozen))
                states = FrozenStates(batches, file.resolve(), width, digest)
                yield states, watch and partial(_watch_whole, watch=watch, off=off, frozen=frozen)
    finally:
        file.unlink(missing_ok=True)


def _kept_width(model: nn.Module, data: Any, limit_bytes: float) -> int:
    """The number of values to store per token, or per row if the head reads one vector; 0 if nothing is stored."""
    frozen = _frozen_layers(model)
    one_vector = _reads_one_vector(model)
    if not frozen or not (one_vector or _can(model, data)):
        return 0
    width = _pooled_width(model) if one_vector else int(backbones.encoder(model).config.hidden_size)
    needed = len(data) * width * 4 if one_vector else len(data.ids) * width * 2
    if needed > limit_bytes > 0:
        size = f"{needed / 1e9:.1f} GB"
        say(f"the states of {frozen} frozen layers would take {size}, more than resources.cache_gb; not stored")
    return width if needed <= limit_bytes else 0


def _watch_whole(model: nn.Module, watch: Watch, off: ExitStack, frozen: int) -> dict[str, float]:
    """The scores of `watch` for the whole model: `off` restores the frozen layers, and then removes them again."""
    off.close()
    try:
        return watch(model)
    finally:
        off.enter_context(_without(model, frozen))


def _reads_one_vector(model: nn.Module) -> bool:
    """Return whether only one of bertline's own heads trains, and that head reads one vector per row."""
    if not isinstance(model, FeaturesForSequenceClassification) or model.config.head == "bilstm":
        return False
    learns_layers = model.config.features == "weighted_sum"
    return not learns_layers and not any(p.requires_grad for p in backbones.encoder(model).parameters())


def _pooled_width(model: nn.Module) -> int:
    parts = model.get_submodule("classifier").modules()
    return next(part.in_features for part in parts if isinstance(part, nn.Linear))


def _frozen_layers(model: nn.Module) -> int:
    """The number of frozen layers, from the lowest up; 0 if the embeddings train."""
    if any(p.requires_grad for part in backbones.embeddings(model) for p in part.parameters()):
        return 0
    trains = [any(p.requires_grad for p in layer.parameters()) for layer in backbones.layers(model)]
    return trains.index(True) if True in trains else len(trains)


def _can(model: nn.Module, data: Any) -> bool:
    """Return whether each layer reads only the one below, the head only the last layer, and a row is one sequence."""
    reads_others = getattr(model.config, "features", "last") != "last"
    return backbones.backbone(model).plain and not reads_others and data.choices == 1


@torch.inference_mode()
def _build(model: nn.Module, batches: Rows, frozen: int, path: Path, width: int, precision: str) -> bool:
    """Write the output of the highest of the `frozen` layers for every token; False if float16 cannot hold a number."""
    data = batches.data
    states_of = reserved(path, np.float16, (len(data.ids), width))
    caught: list[torch.Tensor] = []

    def catch(_: nn.Module, __: Any, output: Any) -> None:
        caught.append(output[0] if isinstance(output, tuple) else output)

    encoder = backbones.encoder(model)
    hook = backbones.layers(model)[frozen - 1].register_forward_hook(catch)
    with hook, backbones.only_layers(model, list(range(frozen))), sequence_packing.rows(model):
        for rows, batch in read_through(model, batches, "frozen layers"):
            with autocast(precision):
                encoder(**backbones.inputs(encoder, batch))
            states = caught.pop()[batch["attention_mask"].bool()].float()
            if overflows(states, np.float16):
                return False
            starts = data.offsets[rows]
            states_of[positions(starts, data.offsets[rows + 1] - starts)] = states.half().cpu().numpy()
    states_of.flush()
    return True


@torch.inference_mode()
def _build_pooled(model: Any, batches: Rows, path: Path, width: int, precision: str) -> None:
    """Write the vector that the head reads for every row, without dropout."""
    vectors = reserved(path, np.float32, (len(batches.data), width))
    for rows, batch in read_through(model, batches, "frozen layers"):
        inputs = backbones.inputs(model, batch)
        with autocast(precision):
            vectors[rows] = model.pool(inputs.pop("input_ids"), inputs).float().cpu().numpy()
    vectors.flush()


def reserved(path: Path, kind: Any, shape: tuple[int, ...]) -> np.memmap:
    """A new file of this size, mapped into memory. Its disk space is allocated at once.

    A full disk raises OSError here; a write into an unallocated part of a mapped file would end the process (SIGBUS).
    """
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, max(1, math.prod(shape) * np.dtype(kind).itemsize))
    return np.memmap(path, kind, "r+", shape=shape)


def read_through(model: nn.Module, batches: Rows, work: str) -> Iterator[tuple[np.ndarray, Batch]]:
    """Yield all rows in batches of similar length, on the model's device, with the model in eval mode.

    A row with several sequences is as long as its longest. Progress is shown under the name `work`.
    """
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    with torch.inference_mode(False):  # otherwise its parameters could not train later
        model.to(device).eval()
    data = batches.data
    lengths = data.lengths.reshape(len(data), -1).max(axis=1)
    with onednn_linear.by_onednn(model), progress(work, len(data), "rows") as advance:
        done = 0
        for rows in by_length(lengths, BUILD_TOKENS[device.type] // data.choices):
            here = batches.collate(rows)
            there = {name: sent(tensor, device) for name, tensor in here.items()}
            sequence_packing.expect(model, there, here)
            yield rows, there
            done += len(rows)
            advance(done)


@contextmanager
def _without(model: nn.Module, frozen: int) -> Iterator[None]:
    """Inside the block, the model lacks its embeddings and its first `frozen` layers."""
    row, encoder = backbones.backbone(model), backbones.encoder(model)
    below = {path: encoder.get_submodule(path) for path in row.embeddings if path in dict(encoder.named_modules())}
    for path in below:
        encoder.set_submodule(path, InputStates())
    try:
        with backbones.only_layers(model, list(range(frozen, len(backbones.layers(model))))):
            yield
    finally:
        for path, module in below.items():
            encoder.set_submodule(path, module)
