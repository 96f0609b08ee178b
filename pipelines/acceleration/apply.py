"""Switch all accelerations on in a fixed order, and off again; `resources.acceleration: off` uses none.

`to_rows` applies the accelerations that depend on the rows, `to_steps` and `to_predictions` those that depend on the
machine. At the end of a block they are switched off in reverse order.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from torch import nn

from pipelines.acceleration import (
    attention_kernels,
    cls_only,
    embedding_subset,
    fast_dropout,
    frozen_features,
    onednn_linear,
    sequence_packing,
)
from pipelines.core.resources import Resources

Names = tuple[str, ...]  # accelerations that are on; None if `resources` switches all of them off


class Accelerated(NamedTuple):
    """The batches and the `watch` to train with while the accelerations of `to_rows` are on, and their names."""

    batches: Any
    watch: frozen_features.Watch | None
    names: Names | None


@contextmanager
def to_rows(
    model: nn.Module,
    batches: Any,
    kind: str,
    place: Path | None,
    resources: Resources,
    watch: frozen_features.Watch | None = None,
) -> Iterator[Accelerated]:
    """Inside the block, a step of `model` gives the same numbers as before, but faster.

    Args:
        batches: RowBatches if `kind` is given, else any batches of sequences.
        kind: the kind of rows, if the loss reads only the outputs of the model's head; "" if it reads the encoder's
            states, as in pretraining. With "", sequence packing is the only acceleration.
        place: a folder for frozen features; None if workers cannot read this machine's files.
    """
    if not resources.acceleration:
        yield Accelerated(batches, watch, None)
        return
    with ExitStack() as on:
        names, inner = {}, batches
        if kind:
            cached = on.enter_context(frozen_features.kept(model, batches, place, resources, watch))
            names["frozen features"] = cached[0] is not batches
            batches, watch = cached
            names["cls-only last layer"] = on.enter_context(cls_only.only(model, kind))
        names["sequence packing"] = on.enter_context(sequence_packing.rows(model))
        if kind:
            subset = embedding_subset.only(model, inner.data.ids, inner.pad_id)
            names["embedding subset"] = on.enter_context(subset)
        yield Accelerated(batches, watch, tuple(name for name, is_on in names.items() if is_on))


class Steps(NamedTuple):
    """The choice of an attention kernel for training steps, and the names of all accelerations that are on."""

    attention: attention_kernels.Attention | attention_kernels.ModelKernel
    names: Names | None


@contextmanager
def to_steps(model: nn.Module, precision: str, before: Names | None) -> Iterator[Steps]:
    """Inside the block, training steps of `model` use the fastest implementations on this machine.

    `before` names the accelerations that are already on; None leaves everything as it is.
    """
    if before is None:
        yield Steps(attention_kernels.ModelKernel(), None)
        return
    with ExitStack() as on:
        names = {
            "oneDNN linear layers": on.enter_context(onednn_linear.by_onednn(model)),
            "fast dropout": on.enter_context(fast_dropout.from_bits(model)),
        }
        attention = on.enter_context(attention_kernels.by_length(model, precision))
        names["attention kernels"] = bool(attention.plain_below)
        yield Steps(attention, before + tuple(name for name, is_on in names.items() if is_on))


def to_predictions(model: nn.Module, in_bf16: bool = False) -> ExitStack:
    """Let `model` predict with the fastest implementations on this machine, as long as the returned stack exists.

    `in_bf16`: the model is on a GPU and predicts in bf16, so its layers need no padding.
    """
    on = ExitStack()
    onednn_linear.use(model)
    if in_bf16:
        on.enter_context(sequence_packing.rows(model))
    return on


def told(names: Names | None) -> str:
    """A line that names the accelerations that are on."""
    return f"acceleration: {'off' if names is None else ', '.join(names) or 'nothing applies'}"
