"""distilbert: every second layer of the teacher learns its probabilities, its last states and the labels.

Sanh et al. 2019, "DistilBERT", section 2: the student begins with one of two layers; its loss has soft targets with a
temperature (L_ce), the cosine between the last hidden states (L_cos) and a supervised loss. The paper distils while it
pretrains, with masked tokens as the supervised loss; here the teacher is fine-tuned, and the labels take their place
(its "additional distillation step"). Weights and temperature are those of the authors' training script. The
student keeps the teacher's family, so it has a pooler and token types, which the paper's architecture drops. It begins
with layers 0, 2, 4, 6, 8, 10 of twelve; the authors' script takes 0, 2, 4, 7, 9, 11.
"""

from functools import partial
from typing import Annotated

import torch
from pydantic import ConfigDict, Field, model_validator
from torch import nn
from transformers import PreTrainedModel

from pipelines.compression import distillation, states, students, teacher_outputs
from pipelines.compression.context import Context
from pipelines.entries.parts.fit import Fit
from pipelines.models.batch import Batch
from pipelines.training import losses

Weight = Annotated[float, Field(ge=0)]


class Params(Fit):
    """The layers that stay, the weights of the three losses, and the settings of the training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: Annotated[int, Field(ge=2)] = 2  # one layer of so many stays, the lowest among them
    temperature: distillation.Temperature = 2.0
    soft: Weight = 5.0  # of L_ce
    hard: Weight = 2.0  # of the labels
    cosine: Weight = 1.0  # of L_cos
    learning_rate: Annotated[float, Field(gt=0, lt=10)] = 5e-5

    @model_validator(mode="after")
    def _some_loss(self) -> "Params":
        if not (self.soft or self.hard or self.cosine):
            raise ValueError("soft, hard and cosine are all 0: nothing would be learned")
        return self


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The student."""
    layers = students.depth(context.teacher)
    if layers < 2:
        raise students.refused("method", "distilbert", ": the teacher has one layer; the student takes fewer")
    student = students.shallower(context, [*range(0, layers, params.every)])
    teaching = teacher_outputs.ask(context, teacher_outputs.OutputRequest(hidden=(layers,)))
    return teaching.train(student, partial(loss, kind=context.task.kind, params=params, last=layers), params)


def loss(
    model: nn.Module, batch: Batch, targets: teacher_outputs.TeacherOutputs, *, kind: str, params: Params, last: int
) -> losses.Sums:
    """The weighted sum of the three; each row has one cosine, the mean of its tokens'."""
    seen = states.see(model, kind, batch)
    hard, count = losses.of_logits(kind, seen.logits, batch)
    soft = distillation.soft_targets(kind, seen.logits, targets["logits"], batch, params.temperature)
    wanted = targets[f"hidden.{last}"]
    apart = cosine(seen.hidden[-1].reshape(wanted.shape), wanted, batch["attention_mask"])
    return params.soft * soft + params.hard * hard + params.cosine * (
        apart * distillation.counts(kind, batch)
    ).sum(), count


def cosine(student: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """1 - cos of the states (B, ..., T, H) of each token, the mean of a row's tokens: (B,)."""
    return distillation.per_row(1 - nn.functional.cosine_similarity(student.float(), teacher, dim=-1), mask)
