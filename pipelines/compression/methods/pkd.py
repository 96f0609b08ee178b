"""pkd: the lowest layers of the teacher learn from its [CLS] states (Sun et al. 2019, patient knowledge distillation).

"Patient Knowledge Distillation for BERT Model Compression", section 3: a student of k layers starts as the teacher's
first k. Its [CLS] states, scaled to unit length, follow those of k - 1 of the teacher's layers: evenly spaced ones
(`skip`) or the last ones (`last`). The last layer of each model is left to the soft targets. BERT6-PKD is `layers: 6`,
BERT3-PKD `layers: 3`. The squared distance is averaged over layers and dimensions, as in the authors' code. For it they
chose beta among 10, 100, 500 and 1000 (section 4.2; alpha among 0.2, 0.5 and 0.7, the temperature among 5, 10 and 20).

Difference from the paper: soft targets are multiplied by the square of the temperature (Hinton et al. 2015), which eq.
4 lacks.
"""

from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import ConfigDict, Field
from torch import nn
from transformers import PreTrainedModel

from pipelines.compression import distillation, states, students, teacher_outputs
from pipelines.compression.context import Context
from pipelines.core.section import Count, Fraction
from pipelines.entries.parts.fit import Fit
from pipelines.models.batch import Batch
from pipelines.training import losses

EXAMPLE: dict[str, Any] = {"layers": 2}


class Params(Fit):
    """The number of the student's layers, the teacher's layers that it follows, and the settings of the training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    layers: Count  # number of the student's layers
    map: Literal["skip", "last"] = "skip"
    temperature: distillation.Temperature = 10.0
    alpha: Fraction = 0.5  # weight of the soft targets; the labels have 1 - alpha
    beta: Annotated[float, Field(ge=0)] = 100.0  # weight of the [CLS] states
    learning_rate: Annotated[float, Field(gt=0, lt=10)] = 5e-5


def compress(context: Context, params: Params) -> PreTrainedModel:
    """Train the student and return it."""
    count = students.depth(context.teacher)
    if not 2 <= params.layers < count:
        choices = f"take 2 to {count - 1}" if count > 2 else "pkd needs a teacher of 3 or more"
        why = f": the teacher has {count}; {choices} (a student of 1 has no layer that follows one of the teacher's)"
        raise students.refused("layers", params.layers, why)
    student = students.shallower(context, [*range(params.layers)])
    taught = followed(count, params.layers, params.map)
    teaching = teacher_outputs.ask(context, teacher_outputs.OutputRequest(first=taught))
    return teaching.train(student, partial(loss, kind=context.task.kind, params=params, taught=taught), params)


def followed(count: int, layers: int, how: str) -> tuple[int, ...]:
    """The teacher's layers, of `count`, that layers 1 to `layers` - 1 of the student follow (section 3.2)."""
    if how == "last":
        return tuple(range(count - layers + 1, count))
    return tuple(i * count // layers for i in range(1, layers))


def loss(
    model: nn.Module,
    batch: Batch,
    targets: teacher_outputs.TeacherOutputs,
    *,
    kind: str,
    params: Params,
    taught: tuple[int, ...],
) -> losses.Sums:
    """(1 - alpha) * CE(labels) + alpha * L_DS + beta * L_PT (eq. 8)."""
    outputs = states.see(model, kind, batch)
    hard, count = losses.of_logits(kind, outputs.logits, batch)
    soft = distillation.soft_targets(kind, outputs.logits, targets["logits"], batch, params.temperature)
    target = torch.stack([targets[f"first.{layer}"] for layer in taught], dim=-2)
    first_tokens = torch.stack([state[:, 0] for state in outputs.hidden[1:-1]], dim=-2).reshape(target.shape)
    apart = (patience(first_tokens, target) * distillation.counts(kind, batch)).sum()
    return (1 - params.alpha) * hard + params.alpha * soft + params.beta * apart, count


def patience(student: torch.Tensor, teacher: torch.Tensor) -> torch.Tensor:
    """The mean squared difference of states (B, ..., k - 1, H) of unit length: (B,) (eq. 7)."""
    apart = nn.functional.normalize(student.float(), dim=-1) - nn.functional.normalize(teacher, dim=-1)
    return apart.square().flatten(1).mean(dim=1)
