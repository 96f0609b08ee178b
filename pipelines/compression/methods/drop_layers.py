"""drop_layers: remove whole layers and fine-tune the rest (Sajjad et al. 2020, "Poor Man's BERT").

Section 3 of the paper lists these choices, with layers numbered from 1 at the bottom: the top layers; every second
layer from the top, the even or the odd ones; the middle layers, so that both ends stay (symmetric); the bottom layers;
and the layers that contribute little. A layer contributes little if the cosine of [CLS] before and after it, averaged
over rows, is above a threshold. The paper measures this on the development set. Here it is measured on training rows,
because the dev split already selects the weights.
"""

from typing import Annotated, Any, Literal

import torch
from pydantic import Field, model_validator
from torch import nn
from transformers import PreTrainedModel

from pipelines.compression import students
from pipelines.compression.context import Context
from pipelines.compression.retraining import FineTuneAfter, fine_tune
from pipelines.core.errors import UsageError
from pipelines.core.section import Count
from pipelines.models import backbones

FAMILIES = tuple(name for name in backbones.BACKBONES if name != "albert")  # ALBERT's layers share weights
EXAMPLE: dict[str, Any] = {"layers": 1}


class Params(FineTuneAfter):
    """The number of layers to remove, which ones, and the settings of fine-tuning (`epochs: 0` skips it)."""

    layers: Count | None = None  # number to drop; for contribution the threshold decides it
    which: Literal["top", "bottom", "even", "odd", "symmetric", "contribution"] = "top"
    threshold: Annotated[float, Field(gt=-1, le=1)] | None = None  # for contribution: drop more similar layers
    rows: Count = 2000  # for contribution: training rows to measure on

    @model_validator(mode="after")
    def _one_of_both(self) -> "Params":
        if self.which == "contribution" and (self.threshold is None or self.layers):
            raise ValueError("which: contribution takes a threshold, such as 0.95, not layers")
        if self.which != "contribution" and (self.threshold is not None or not self.layers):
            raise ValueError(f"which: {self.which} takes layers, not a threshold")
        return self


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with fewer layers."""
    model, count = context.teacher, len(backbones.layers(context.teacher))
    if params.which == "contribution":
        similarity = similarities(context, params.rows)
        context.found["similarity"] = [round(value, 6) for value in similarity]
        stay = contributing(similarity, params.threshold or 0.0)
    else:
        assert params.layers, "as the params ask"
        stay = kept(count, params.layers, params.which)
    if 0 not in stay and backbones.encoder(model).config.model_type == "modernbert":
        raise UsageError(
            f"params.yaml: compress: which: {params.which} drops ModernBERT's first layer; it has no norm of its own, "
            "so no other can take its place"
        )
    students.require_layers(model, len(stay))
    context.found["layers"] = stay
    backbones.set_layers(model, stay)
    if isinstance(weights := getattr(model, "weights", None), nn.Parameter):  # the head has one for each state it reads
        model.weights = nn.Parameter(weights.detach()[[0, *(number + 1 for number in stay)]])  # 0: of the embeddings
    return fine_tune(context, model, params)


def kept(count: int, layers: int, which: str) -> list[int]:
    """Numbers of the layers that stay of `count`, lowest first, from 0. Raises UsageError if `layers` is too large."""
    if layers >= count:
        raise UsageError(f"params.yaml: compress: layers: {layers} to drop of {count}; at least one must stay")
    remaining = count - layers
    if which == "top":
        return [*range(remaining)]
    if which == "bottom":
        return [*range(layers, count)]
    if which == "symmetric":
        low = (remaining + 1) // 2
        return [*range(low), *range(count - (remaining - low), count)]
    some = [i for i in reversed(range(count)) if (i + 1) % 2 == (which == "odd")]
    if layers > len(some):
        raise UsageError(f"params.yaml: compress: layers: {layers} to drop; of {count} layers {len(some)} are {which}")
    return [i for i in range(count) if i not in some[:layers]]


def contributing(similarity: list[float], threshold: float) -> list[int]:
    """Numbers of the layers whose similarity is at most `threshold`. Raises UsageError if it drops all or none."""
    stay = [i for i, value in enumerate(similarity) if value <= threshold]
    if 0 < len(stay) < len(similarity):
        return stay
    what = "none" if stay else f"all {len(similarity)}"
    listed = ", ".join(f"{value:.4f}" for value in similarity)
    raise UsageError(
        f"params.yaml: compress: threshold: {threshold} drops {what} of the layers; their similarities are {listed}"
    )


def _first(states: Any, family: str) -> torch.Tensor:
    """The first token's state (B, H) in the input or output of a layer."""
    if family == "bilstm":  # one state per direction
        return torch.cat(states[:2], dim=-1)[:, 0]
    hidden: torch.Tensor = states[0] if isinstance(states, tuple) else states
    return hidden[0] if family == "xlnet" else hidden[:, 0]  # XLNet's states are (T, B, H)


def similarities(context: Context, rows: int) -> list[float]:
    """For each layer the mean over rows of the cosine between the first token's states before and after it."""
    model, layers = context.teacher, backbones.layers(context.teacher)
    family = backbones.encoder(model).config.model_type
    sums, count = [0.0] * len(layers), 0

    def of(number: int) -> Any:
        def see(_: nn.Module, before: Any, after: Any) -> None:
            x, y = _first(before, family).double(), _first(after, family).double()
            sums[number] += float(nn.functional.cosine_similarity(x, y, dim=-1).sum())

        return see

    hooks = [layer.register_forward_hook(of(i)) for i, layer in enumerate(layers)]
    try:
        with torch.inference_mode():
            for batch in context.data.once(rows, 32, context.seed):
                count += batch["input_ids"].flatten(0, -2).shape[0]  # sequences: a row of choices has several
                model(**backbones.inputs(model, batch))
    finally:
        for hook in hooks:
            hook.remove()
    return [total / count for total in sums]
