"""drop_layers: take whole layers away and fine-tune what is left (Sajjad et al. 2020, "Poor Man's BERT")."""

from typing import Annotated, Literal

from pydantic import ConfigDict, Field
from transformers import PreTrainedModel

from pipelines.core.entries import Count, Fit
from pipelines.core.errors import UsageError
from pipelines.models import backbones, lean
from pipelines.training import losses
from pipelines.training.batches import RowBatches, TaskData
from pipelines.training.distributed import FitFunction


class Params(Fit):
    """How many layers go and which; then the fine-tuning, none with epochs 0."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layers: Count  # to drop
    which: Literal["top", "bottom", "symmetric"] = "top"  # symmetric: from the middle, both ends stay
    epochs: Annotated[float, Field(ge=0)] = 3


def compress(teacher: PreTrainedModel, data: TaskData, params: Params, fit: FitFunction) -> PreTrainedModel:
    count = len(backbones.layers(teacher))
    if params.layers >= count:
        raise UsageError(f"params.yaml: compress: layers: {params.layers} to drop of {count}; at least one must stay")
    backbones.set_layers(teacher, kept(count, params))
    if not params.epochs:
        return teacher
    batches = RowBatches(data.train, params.batch_size, params.epochs, params.seed, data.pad_id)
    with lean.steps(teacher, data.kind, data.train.ids, data.pad_id):
        return fit(teacher, losses.for_kind(data.kind), batches, params)


def kept(count: int, params: Params) -> list[int]:
    """Numbers of the layers that stay, lowest first."""
    left = count - params.layers
    if params.which == "top":
        return [*range(left)]
    if params.which == "bottom":
        return [*range(params.layers, count)]
    low = (left + 1) // 2
    return [*range(low), *range(count - (left - low), count)]
