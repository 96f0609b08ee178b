"""drop_layers: remove whole layers and fine-tune the rest (Sajjad et al. 2020, "Poor Man's BERT")."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from transformers import PreTrainedModel

from pipelines.compression.context import Context
from pipelines.core.errors import UsageError
from pipelines.core.section import Count
from pipelines.entries.parts.fit import Fit
from pipelines.models import backbones
from pipelines.training import losses


class Params(Fit):
    """How many layers are removed, and which; then the settings of fine-tuning, which epochs 0 leaves out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layers: Count  # to drop
    which: Literal["top", "bottom", "symmetric"] = "top"  # symmetric: from the middle, both ends stay
    epochs: Annotated[float, Field(ge=0)] = 3


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with fewer layers."""
    model, count = context.teacher, len(backbones.layers(context.teacher))
    if params.layers >= count:
        raise UsageError(f"params.yaml: compress: layers: {params.layers} to drop of {count}; at least one must stay")
    backbones.set_layers(model, kept(count, params))
    if not params.epochs:
        return model
    kind = context.task.kind
    return context.train(model, losses.for_kind(kind), params, kind=kind)


def kept(count: int, params: Params) -> list[int]:
    """Numbers of the layers that stay, lowest first."""
    left = count - params.layers
    if params.which == "top":
        return [*range(left)]
    if params.which == "bottom":
        return [*range(params.layers, count)]
    low = (left + 1) // 2
    return [*range(low), *range(count - (left - low), count)]
