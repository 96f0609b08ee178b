"""A frozen prefix, run once: the states that the training layers start from, on disk, instead of the layers below.

Layers that do not train give a row the same states in every epoch, because they run without dropout (see
`strategies.train_mode`). They are kept in float16: two bytes a dimension of a token. Where the head alone trains and reads one
vector a row, that vector is kept, in float32, and dropout falls on it, not on the tokens that it is made of.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.core.entries import Resources
from pipelines.core.progress import progress, say
from pipelines.core.ragged import by_length, positions
from pipelines.models import backbones, products, side_by_side
from pipelines.models.batch import Batch
from pipelines.models.features import FeaturesForSequenceClassification
from pipelines.training.batches import Encoded, RowBatches, collate
from pipelines.training.kernels import autocast
from pipelines.training.loop import Watch

# of a padded batch while the states are computed; few stay in a CPU's cache
BUILD_TOKENS = {"cpu": 1024, "cuda": 16384}


class Given(nn.Module):
    """Stands where the embeddings were: what comes in are states already."""

    def forward(self, *arguments: Any, **named: Any) -> torch.Tensor:
        return next(x for x in (*arguments, *named.values()) if torch.is_tensor(x) and x.is_floating_point())


class _Kept:
    """`inner`'s batches with what a file keeps in place of the ids."""

    def __init__(self, inner: RowBatches, file: Path, width: int, digest: str) -> None:
        self.inner, self.file, self.width, self.digest = inner, file, width, digest

    def __len__(self) -> int:
        return len(self.inner)

    def rows(self, step: int) -> np.ndarray:
        return self.inner.rows(step)

    def fingerprint(self) -> str:
        return f"{self.inner.fingerprint()} {self.digest}"


class PrefixBatches(_Kept):
    """States (B, T, H) as inputs_embeds."""

    def __getitem__(self, step: int) -> Batch:
        batch, data, rows = self.inner[step], self.inner.data, self.inner.rows(step)
        starts = data.offsets[rows]
        inside = batch["attention_mask"].bool()
        found = torch.zeros(*inside.shape, self.width)
        kept = np.memmap(self.file, np.float16, "r", shape=(len(data.ids), self.width))  # opened in any process
        found[inside] = torch.from_numpy(kept[positions(starts, data.offsets[rows + 1] - starts)].astype(np.float32))
        return {"inputs_embeds": found, **{name: tensor for name, tensor in batch.items() if name != "input_ids"}}


class PooledBatches(_Kept):
    """One vector a row, pooled (B, F)."""

    def __getitem__(self, step: int) -> Batch:
        data, rows = self.inner.data, self.inner.rows(step)
        kept = np.memmap(self.file, np.float32, "r", shape=(len(data), self.width))
        return {"pooled": torch.from_numpy(kept[rows]), "labels": torch.from_numpy(data.labels[rows])}  # type: ignore[index]


@contextmanager
def taken_off(
    model: nn.Module,
    batches: RowBatches,
    place: Path,
    resources: Resources,
    watch: Watch | None = None,
) -> Iterator[tuple[Any, Watch | None]]:
    """Inside the block `model` has only the layers that train; yields batches of their inputs, and `watch` for such a model.

    Where nothing would be gained, or the states would take more than `resources` allow, both are yielded as they are.
    """
    data, precision = batches.data, resources.precision
    # workers elsewhere cannot read the file, and those in other processes have not the layers to look with
    readable = not os.environ.get("RAY_ADDRESS") and not (watch and resources.workers)
    width = _kept_width(model, data, resources.cache_gb * 1e9 if readable else 0)
    if not width:
        yield batches, watch
        return
    place.mkdir(parents=True, exist_ok=True)
    file, frozen = place / "prefix", _frozen_layers(model)
    try:
        if _reads_one_vector(model):
            digest = backbones.digest(backbones.encoder(model))
            _build_pooled(model, data, batches.pad_id, file, width, precision)
            yield PooledBatches(batches, file.resolve(), width, digest), watch
        else:
            digest = backbones.digest(*backbones.embeddings(model), *list(backbones.layers(model))[:frozen])
            _build(model, data, batches.pad_id, frozen, file, width, precision)
            with ExitStack() as off:
                off.enter_context(_without(model, frozen))
                kept = PrefixBatches(batches, file.resolve(), width, digest)
                yield kept, watch and partial(_watch_whole, watch=watch, off=off, frozen=frozen)
    finally:
        file.unlink(missing_ok=True)


def _kept_width(model: nn.Module, data: Encoded, limit_bytes: float) -> int:
    """Numbers to keep of a token, or of a row where the head alone trains on one vector; 0 where nothing is to be kept."""
    frozen = _frozen_layers(model)
    one_vector = _reads_one_vector(model)
    if not frozen or not (one_vector or _can(model, data)):
        return 0
    width = _pooled_width(model) if one_vector else int(backbones.encoder(model).config.hidden_size)
    needed = len(data) * width * 4 if one_vector else len(data.ids) * width * 2
    if needed > limit_bytes > 0:
        size = f"{needed / 1e9:.1f} GB"
        say(f"the states of {frozen} frozen layers would take {size}, over resources.cache_gb; not kept")
    return width if needed <= limit_bytes else 0


def _watch_whole(model: nn.Module, watch: Watch, off: ExitStack, frozen: int) -> dict[str, float]:
    """What `watch` says of the model with its frozen layers back; `off` takes them off again."""
    off.close()
    try:
        return watch(model)
    finally:
        off.enter_context(_without(model, frozen))


def _reads_one_vector(model: nn.Module) -> bool:
    """Whether all that trains is a head of ours that reads one vector a row."""
    if not isinstance(model, FeaturesForSequenceClassification) or model.config.head == "bilstm":
        return False
    learns_layers = model.config.features == "weighted_sum"
    return not learns_layers and not any(p.requires_grad for p in backbones.encoder(model).parameters())


def _pooled_width(model: nn.Module) -> int:
    return next(part.in_features for part in model.classifier.modules() if isinstance(part, nn.Linear))  # type: ignore[union-attr]


def _frozen_layers(model: nn.Module) -> int:
    """How many layers, from the lowest up, do not train; 0 where the embeddings do."""
    if any(p.requires_grad for part in backbones.embeddings(model) for p in part.parameters()):
        return 0
    trains = [any(p.requires_grad for p in layer.parameters()) for layer in backbones.layers(model)]
    return trains.index(True) if True in trains else len(trains)


def _can(model: nn.Module, data: Encoded) -> bool:
    """Whether the family's layers follow each other plainly, and the head reads the last of them alone."""
    reads_others = getattr(model.config, "features", "last") != "last"
    return backbones.backbone(model).plain and not reads_others and data.choices == 1


@torch.inference_mode()
def _build(model: nn.Module, data: Encoded, pad_id: int, frozen: int, path: Path, width: int, precision: str) -> None:
    """Write the output of layer `frozen` for every token; rows of like length go together."""
    kept = np.memmap(path, np.float16, "w+", shape=(len(data.ids), width))
    caught: list[torch.Tensor] = []

    def catch(_: nn.Module, __: Any, output: Any) -> None:
        caught.append(output[0] if isinstance(output, tuple) else output)

    encoder = backbones.encoder(model)
    hook = backbones.layers(model)[frozen - 1].register_forward_hook(catch)
    with backbones.only_layers(model, list(range(frozen))), side_by_side.rows(model):
        for rows, batch in _read_through(model, data, pad_id):
            with autocast(precision):
                encoder(**backbones.inputs(encoder, batch))
            states = caught.pop()[batch["attention_mask"].bool()]
            starts = data.offsets[rows]
            kept[positions(starts, data.offsets[rows + 1] - starts)] = states.half().cpu().numpy()
    hook.remove()
    kept.flush()


@torch.inference_mode()
def _build_pooled(model: Any, data: Encoded, pad_id: int, path: Path, width: int, precision: str) -> None:
    """Write the vector of every row that the head reads, as it is without dropout."""
    kept = np.memmap(path, np.float32, "w+", shape=(len(data), width))
    for rows, batch in _read_through(model, data, pad_id):
        inputs = backbones.inputs(model, batch)
        with autocast(precision):
            kept[rows] = model.pool(inputs.pop("input_ids"), inputs).float().cpu().numpy()
    kept.flush()


def _read_through(model: nn.Module, data: Encoded, pad_id: int) -> Iterator[tuple[np.ndarray, Batch]]:
    """All rows in batches of like length, on the model's device; the model does not learn from them."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model.to(device).eval()
    with products.by_onednn(model), progress("frozen layers", len(data), "rows") as advance:
        done = 0
        for rows in by_length(data.lengths, BUILD_TOKENS[device.type]):
            yield rows, {name: tensor.to(device) for name, tensor in collate(data, rows, pad_id).items()}
            done += len(rows)
            advance(done)


@contextmanager
def _without(model: nn.Module, frozen: int) -> Iterator[None]:
    """The model without its embeddings and its first `frozen` layers; all of it again at the end."""
    row, encoder = backbones.backbone(model), backbones.encoder(model)
    below = {path: encoder.get_submodule(path) for path in row.embeddings if path in dict(encoder.named_modules())}
    for path in below:
        encoder.set_submodule(path, Given())
    try:
        with backbones.only_layers(model, list(range(frozen, len(backbones.layers(model))))):
            yield
    finally:
        for path, module in below.items():
            encoder.set_submodule(path, module)
