"""recorder: a compression method for tests; it records its inputs, and trains a student."""

from pathlib import Path

import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.checkpoints import folder
from pipelines.compression.context import Context
from pipelines.entries.parts.fit import Fit
from pipelines.models.batch import Batch
from pipelines.training import losses

given: list[Context] = []
events: list[tuple[str, int]] = []  # ("before", step) and ("loss", step), in order
scores: list[tuple[float, dict[str, torch.Tensor]]] = []  # the score of every evaluation, and the weights at that time
cut_at = -1  # the step before which the training is interrupted


class Params(Fit):
    """The student's folder, and the params of its training."""

    student: str
    unlearns_from: int = 10**9  # from this step on the sign of the loss is reversed


def compress(context: Context, params: Params) -> PreTrainedModel:
    """Train the student on the rows, and return it."""
    given.append(context)
    (context.cache / "outputs").write_text("what the teacher says")

    def before(model: nn.Module, step: int, steps: int) -> None:
        assert steps == len(context.data.batches(params))
        if step == cut_at:
            raise KeyboardInterrupt
        events.append(("before", step))

    def loss(model: nn.Module, batch: Batch, step: int) -> tuple[torch.Tensor, torch.Tensor]:
        events.append(("loss", step))
        total, count = losses.for_kind(context.task.kind)(model, batch, step)
        return -total if step >= params.unlearns_from else total, count

    def watch(model: nn.Module) -> dict[str, float]:
        assert context.watch is not None
        scored = context.watch(model)
        weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        scores.append((scored[context.task.metric], weights))
        return scored

    student, _ = folder.load_tuned(Path(params.student))
    options = {"watch": watch} if context.watch else {}
    return context.train(student, loss, params, kind=context.task.kind, each_step=before, **options)
