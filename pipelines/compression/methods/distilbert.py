"""distilbert: a student with every second layer learns the teacher's probabilities, its last states and the labels.

Sanh et al. 2019, "DistilBERT", section 2: the student starts from every second layer of the teacher. Its loss has soft
targets with a temperature (L_ce), the cosine between the last hidden states (L_cos) and a supervised loss. The paper
distils during pretraining, with masked tokens as the supervised loss. Here the teacher is fine-tuned, and the labels
replace the masked tokens (the paper's "additional distillation step"). Weights and temperature are those of the
authors' training script.

Differences from the paper: the student keeps the teacher's family, including the pooler and token types that the
paper's architecture drops. Of twelve layers it starts from 0, 2, 4, 6, 8, 10; the authors' script takes 0, 2, 4, 7, 9,
11.
"""

from functools import partial
from typing import Annotated, Any

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
EXAMPLE: dict[str, Any] = {}


class Params(Fit):
    """The layers that stay, the weights of the three losses, and the settings of the training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    every: Annotated[int, Field(ge=2)] = 2  # every n-th layer stays, beginning with the lowest
    temperature: distillation.Temperature = 2.0
    soft: Weight = 5.0  # weight of L_ce
    hard: Weight = 2.0  # weight of the labels
    cosine: Weight = 1.0  # weight of L_cos
    learning_rate: Annotated[float, Field(gt=0, lt=10)] = 5e-5

    @model_validator(mode="after")
    def _some_loss(self) -> "Params":
        if not (self.soft or self.hard or self.cosine):
            raise ValueError("soft, hard and cosine are all 0: nothing would be learned")
        return self


def compress(context: Context, params: Params) -> PreTrainedModel:
    """Train the student and return it."""
    layers = students.depth(context.teacher)
    if layers < 2:
        raise students.refused("method", "distilbert", ": the teacher has one layer; the student takes fewer")
    student = students.shallower(context, [*range(0, layers, params.every)])
    teaching = teacher_outputs.ask(context, teacher_outputs.OutputRequest(hidden=(layers,)))
    return teaching.train(student, partial(loss, kind=context.task.kind, params=params, last=layers), params)


def loss(
    model: nn.Module, batch: Batch, targets: teacher_outputs.TeacherOutputs, *, kind: str, params: Params, last: int
) -> losses.Sums:
    """The weighted sum of the three losses; the cosine loss of a row is the mean over its tokens."""
    outputs = states.see(model, kind, batch)
    hard, count = losses.of_logits(kind, outputs.logits, batch)
    soft = distillation.soft_targets(kind, outputs.logits, targets["logits"], batch, params.temperature)
    target = targets[f"hidden.{last}"]
    apart = cosine(outputs.hidden[-1].reshape(target.shape), target, batch["attention_mask"])
    return params.soft * soft + params.hard * hard + params.cosine * (
        apart * distillation.counts(kind, batch)
    ).sum(), count


def cosine(student: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """1 - cos of the states (B, ..., T, H) of each token, averaged over the tokens of a row: (B,)."""
    return distillation.per_row(1 - nn.functional.cosine_similarity(student.float(), teacher, dim=-1), mask)
