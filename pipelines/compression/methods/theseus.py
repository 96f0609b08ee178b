"""theseus: modules of the teacher are replaced at random by smaller ones, which learn in their place (Xu et al. 2020).

"BERT-of-Theseus: Compressing BERT by Progressive Module Replacing", section 3. The teacher's layers are divided into
modules. Each module has a substitute of one layer, the successor, which starts as one of the teacher's first layers. At
every step each module is replaced with a probability: a constant one (section 3.1), or one that rises linearly (3.3).
Only successors train; embeddings, head and the teacher's layers are frozen. Then the successors alone are fine-tuned
with embeddings and head (section 3.2).

The loss is the task's. `soft` adds the teacher's probabilities to the labels; with `soft: 1` they replace the labels.

Differences from the paper: each stage is a fit of its own, with its own learning-rate schedule, and the teacher's
layers run without dropout, like all frozen layers here.
"""

from copy import deepcopy
from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import ConfigDict, Field
from torch import nn
from transformers import PreTrainedModel

from pipelines.compression import retraining, students
from pipelines.compression.context import Context
from pipelines.compression.retraining import DistillationFit
from pipelines.core import seeding
from pipelines.core.section import Count, Fraction, Positive
from pipelines.models import backbones, shapes
from pipelines.models.batch import Batch
from pipelines.training import losses, optim

EXAMPLE: dict[str, Any] = {"layers": 2, "replacing_epochs": 1}


class Params(DistillationFit):
    """The number of remaining layers, how they replace the teacher's, and the settings of both fits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layers: Count | None = None  # layers of the student; by default half of the teacher's
    replacing: Literal["constant", "linear"] = "linear"
    rate: Fraction = 0.3  # the probability, or its initial value (b of section 3.3)
    # the increase at every step (k of section 3.3); by default the rate is 1 after half of the steps, about as in the
    # authors' example of 0.0006 over 2,500 steps
    slope: Annotated[float, Field(gt=0)] | None = None
    replacing_epochs: Positive = 3
    learning_rate: Annotated[float, Field(gt=0, lt=10)] = 2e-5  # learning rate of both fits


class Place(nn.Module):
    """Wraps a layer of the teacher. When replaced, a module's first place runs the successor; the others do nothing."""

    def __init__(self, layer: nn.Module, successor: nn.Module | None) -> None:
        super().__init__()
        self.layer, self.successor, self.replaced = layer, successor, False

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the teacher's layer, such as its type of attention, which the model reads."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("layer"), name)

    def train(self, mode: bool = True) -> "Place":
        super().train(mode)
        self.layer.eval()
        return self

    def forward(self, states: torch.Tensor, *more: Any, **named: Any) -> torch.Tensor:
        if not self.replaced:
            return self.layer(states, *more, **named)
        return states if self.successor is None else self.successor(states, *more, **named)


def compress(context: Context, params: Params) -> PreTrainedModel:
    """Train the successors within the teacher, then with embeddings and head; return the model of both."""
    count = students.depth(context.teacher)
    layers = params.layers or max(1, count // 2)
    _check(context.teacher, count, layers)
    student = students.shallower(context, [*range(layers)], [*range(0, count, count // layers)])
    ship = deepcopy(context.teacher)
    modules = board(ship, backbones.layers(student))
    kind = context.task.kind
    groups = partial(_successors, rate=params.learning_rate)
    each_step = partial(replace, modules=layers, params=params, seed=context.seed)
    replacing = params.model_copy(update={"epochs": params.replacing_epochs})
    trainer, task = retraining.lesson(context, params)
    trainer.train(ship, partial(loss, task=task), replacing, watch=None, select="", groups=groups, each_step=each_step)
    for layer, place in zip(backbones.layers(student), modules, strict=True):
        layer.load_state_dict(place.successor.state_dict())
    return trainer.train(student, task, params, kind=kind)


def _check(teacher: PreTrainedModel, count: int, layers: int) -> None:
    if not backbones.backbone(teacher).plain or len(backbones.layers(teacher)) != count:
        family = backbones.encoder(teacher).config.model_type
        raise students.refused(
            "method", "theseus", f": the layers of the {family} family cannot be replaced one by one"
        )
    if (features := getattr(teacher.config, "features", "last")) != "last":
        raise students.refused("method", "theseus", f": the teacher's head reads {features}, and modules show the last")
    shapes.require_own(teacher, "theseus")
    if layers >= count or count % layers:
        some = ", ".join(str(i) for i in range(1, count) if count % i == 0) or "none"
        why = f": the teacher has {count}; modules of equal size are possible with {some}"
        raise students.refused("layers", layers, why)


def board(ship: PreTrainedModel, successors: Any) -> list[Any]:
    """Put a `Place` around every layer of `ship`; return the first of each module, which has the successor."""
    old = backbones.layers(ship)
    size = len(old) // len(successors)
    places = [Place(layer, None if i % size else deepcopy(successors[i // size])) for i, layer in enumerate(old)]
    backbones.encoder(ship).set_submodule(backbones.backbone(ship).layers, nn.ModuleList(places))
    return places[::size]


def rate_at(step: int, steps: int, params: Params) -> float:
    """The probability of a replacement at `step`: p, or min(1, k * step + b) (section 3.3)."""
    if params.replacing == "constant":
        return params.rate
    slope = 2 * (1 - params.rate) / steps if params.slope is None else params.slope
    return min(1.0, slope * step + params.rate)


def replace(model: nn.Module, step: int, steps: int, *, modules: int, params: Params, seed: int) -> None:
    """Draw the modules to replace at this step; a resumed training and other workers draw the same ones."""
    drawn = seeding.generator(seed, "replaced", step).random(modules) < rate_at(step, steps, params)
    places: Any = [*backbones.layers(model)]
    size = len(places) // modules
    for i, place in enumerate(places):
        place.replaced = bool(drawn[i // size])


def loss(model: nn.Module, batch: Batch, more: Any = 0, *, task: retraining.Task) -> losses.Sums:
    """The loss of `task`. Successors that are not used at this step get gradients of 0, as in the authors' code."""
    total, count = task(model, batch, more)
    idle = [p for place in backbones.layers(model) if not place.replaced for p in place.parameters() if p.requires_grad]
    return total + 0.0 * sum(parameter.sum() for parameter in idle), count


def _successors(model: nn.Module, rate: float) -> list[optim.Group]:
    """Freeze all parameters but the successors', and return these."""
    model.requires_grad_(False)
    for place in backbones.layers(model):
        if isinstance(place, Place) and place.successor is not None:
            place.successor.requires_grad_(True)
    return optim.all_parameters(model, rate)
