"""soft_targets: a student learns the teacher's probabilities and the labels (Hinton et al. 2015; Turc et al. 2019).

The student has any size, and starts from random or pretrained weights. With pretrained weights and a fine-tuned
teacher, this is the pre-trained distillation of Turc et al. 2019 ("Well-Read Students Learn Better"). For their
acoustic model (section 4.1, table 1) Hinton et al. found temperature 2 best among 1, 2, 5 and 10, and gave the labels
half the weight of the soft targets, which is `soft: 0.667` here. By default both have the same weight.
"""

from functools import partial
from typing import Annotated, Any

from pydantic import Field
from transformers import PreTrainedModel

from pipelines.compression import distillation, students, teacher_outputs
from pipelines.compression.context import Context
from pipelines.core.section import Fraction

EXAMPLE: dict[str, Any] = {"layers": 2, "hidden_size": 16}


class Params(students.Sized):
    """The student's size or folder, the softness of the targets, and the settings of the training."""

    temperature: distillation.Temperature = 2.0
    soft: Fraction = 0.5  # weight of the teacher's probabilities; the labels have 1 - soft
    learning_rate: Annotated[float, Field(gt=0, lt=10)] = 1e-4


def compress(context: Context, params: Params) -> PreTrainedModel:
    """Train the student and return it."""
    student = students.sized(context, params)
    teaching = teacher_outputs.ask(context)
    loss = partial(distillation.soft_and_hard, kind=context.task.kind, temperature=params.temperature, soft=params.soft)
    return teaching.train(student, loss, params, logits_only=True)
