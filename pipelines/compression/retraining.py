"""The training after a method: on the labels, the teacher's probabilities or both (Hinton et al. 2015, section 2)."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any, Protocol, Unpack

from pydantic import ConfigDict, Field
from transformers import PreTrainedModel

from pipelines.checkpoints import folder
from pipelines.compression import distillation, teacher_outputs
from pipelines.compression.context import Context
from pipelines.core.section import Fraction
from pipelines.entries.parts.fit import Fit
from pipelines.training import losses
from pipelines.training.distributed import FitOptions

Task = Callable[..., losses.Sums]  # a loss that reads only logits


class DistillationFit(Fit):
    """The settings of a training on labels and, with `soft`, on the teacher's probabilities."""

    soft: Fraction = 0.0  # weight of the teacher's probabilities; the labels have 1 - soft
    temperature: distillation.Temperature = 2.0


class FineTuneAfter(DistillationFit):
    """The settings of the fine-tuning that follows a method; `epochs: 0` skips it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    epochs: Annotated[float, Field(ge=0)] = 3


class Trainer(Protocol):
    """The common interface of `Context` and `teacher_outputs.Distillation`."""

    def train(
        self, model: PreTrainedModel, loss: Any, params: Fit, **options: Unpack[FitOptions]
    ) -> PreTrainedModel: ...


def fine_tune(
    context: Context, model: PreTrainedModel, params: FineTuneAfter, **options: Unpack[FitOptions]
) -> PreTrainedModel:
    """Train as the finetune stage does; with 0 epochs the model stays as it is.

    A method may have changed `context.teacher`, so soft targets come from the teacher in its folder.
    """
    if not params.epochs:
        return model.eval()
    trainer, task = lesson(unchanged(context) if params.soft else context, params)
    of_kind: FitOptions = {"kind": context.task.kind}
    return trainer.train(model, task, params, **(of_kind | options))


def unchanged(context: Context) -> Context:
    """The context with its teacher loaded again from its folder."""
    return replace(context, teacher=folder.load_tuned(context.source)[0])


def lesson(context: Context, params: DistillationFit) -> tuple[Trainer, Task]:
    """The trainer and the loss for `params`: with the teacher's probabilities if `soft` is not 0."""
    kind = context.task.kind
    if not params.soft:
        return context, losses.for_kind(kind)
    loss = partial(distillation.soft_and_hard, kind=kind, temperature=params.temperature, soft=params.soft)
    return teacher_outputs.ask(context), loss
