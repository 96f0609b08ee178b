"""The first fit of methods whose student imitates the teacher's attention and hidden states; the head is left out."""

import copy
from contextlib import nullcontext
from functools import partial
from typing import Annotated, Any

import torch
from pydantic import Field
from torch import nn
from transformers import PreTrainedModel

from pipelines.acceleration import sequence_packing
from pipelines.compression import distillation, states, students
from pipelines.compression.context import Context
from pipelines.compression.teacher_outputs import Distillation, Loss, OutputRequest, TeacherOutputs, ask
from pipelines.entries.parts.fit import Fit
from pipelines.models import backbones, heads
from pipelines.models.batch import Batch
from pipelines.training import losses, optim
from pipelines.training.batches import RowBatches

Rate = Annotated[float, Field(gt=0, lt=10)]


def check_heads(context: Context, student: PreTrainedModel) -> None:
    """Raise UsageError unless teacher and student expose attention with the same number of heads in every layer."""
    batch, kind = RowBatches(context.data.train, 1, 1, 0, context.data.pad_id)[0], context.task.kind
    counts = []
    for model in (context.teacher, student):
        with torch.inference_mode():  # on a copy, as in `teacher_outputs`
            outputs = states.see(copy.deepcopy(model).cpu().eval(), kind, batch, attention=True)
        if len(outputs.attention) != students.depth(model):
            family = backbones.encoder(model).config.model_type
            raise students.refused("attention", 1, f": the {family} family exposes no queries and keys; set it to 0")
        counts.append({queries.shape[1] for queries, _ in outputs.attention})
    if counts[0] != counts[1] or len(counts[0]) > 1:
        teacher, student_heads = (" or ".join(map(str, sorted(count))) for count in counts)
        raise students.refused(
            "heads",
            student_heads,
            f": the teacher has {teacher}; every layer needs the same number, or set attention: 0",
        )


def scores(targets: TeacherOutputs, layer: int, count: int) -> torch.Tensor:
    """The teacher's attention scores before the softmax, with `count` heads: (S, h, T, T)."""
    pair = (targets[f"{name}.{layer}"].unflatten(-1, (count, -1)) for name in ("queries", "keys"))
    return states.scores(*(part.flatten(0, -4).transpose(1, 2) for part in pair))


def apart(student: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean squared difference of states (B, ..., T, H) over the tokens of each row: (B,).

    Jiao et al. 2020, eq. 8 and 9; Sun et al. 2020 (MobileBERT), section 3.5.
    """
    return distillation.per_row((student.float() - teacher).square().mean(dim=-1), mask)


def every_layer(context: Context, student: PreTrainedModel, params: Fit, attention: float) -> Distillation:
    """Train a student, as deep and as wide as its teacher, to reproduce the teacher's states in every layer.

    The student's head does not train.

    Args:
        attention: the weight of the attention loss; 0 leaves attention out.
    """
    every = tuple(range(1, students.depth(context.teacher) + 1))
    teaching = ask(context, OutputRequest(hidden=every, attention=every if attention else ()))
    fit(teaching, student, student, partial(inside, kind=context.task.kind, attention=attention), params)
    return teaching


def fit(teaching: Distillation, model: nn.Module, student: PreTrainedModel, loss: Loss, params: Fit) -> None:
    """Train `model`, which is the student or contains it, with the student's head frozen; then unfreeze the head.

    Rows are not packed if attention was requested, because it is compared row by row.
    """
    with sequence_packing.off(student) if teaching.asked.attention else nullcontext():
        groups: Any = partial(_below_head, rate=params.learning_rate)
        teaching.train(model, loss, params, scored=False, groups=groups)
    student.requires_grad_(True)


def _below_head(model: nn.Module, rate: float) -> list[optim.Group]:
    """Freeze the head, which the loss does not read, and return all other parameters."""
    for parameter in heads.head_parameters(getattr(model, "student", model)):
        parameter.requires_grad_(False)
    return optim.all_parameters(model, rate)


def inside(model: nn.Module, batch: Batch, targets: TeacherOutputs, *, kind: str, attention: float) -> losses.Sums:
    """The sum over rows and layers of L_FMT + `attention` * L_AT, and the count (Sun et al. 2020, section 3.5)."""
    outputs = states.see(model, kind, batch, attention=bool(attention))
    mask, counted = batch["attention_mask"], distillation.counts(kind, batch)
    loss_per_row = torch.zeros(len(counted), device=mask.device)
    for layer, state in enumerate(outputs.hidden[1:], start=1):
        loss_per_row = loss_per_row + apart(state.reshape(*mask.shape, -1), targets[f"hidden.{layer}"], mask)
        if attention:
            target = scores(targets, layer, outputs.attention[layer - 1][0].shape[1])
            loss_per_row = loss_per_row + attention * divergence(outputs.scores(layer), target, mask)
    return (loss_per_row * counted).sum(), counted.sum()


def divergence(student: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """KL(teacher || student) of attention scores (S, h, T, T), averaged over heads and tokens: (B,).

    L_AT of Sun et al. 2020, section 3.5.
    """
    outside = ~mask.flatten(0, -2).bool()[:, None, None]
    student_logs, teacher_logs = (
        scores_of.float().masked_fill(outside, -1e9).log_softmax(dim=-1) for scores_of in (student, teacher)
    )
    differences = (teacher_logs.exp() * (teacher_logs - student_logs)).sum(dim=-1).mean(dim=1)  # (S, T)
    return distillation.per_row(differences.reshape(mask.shape), mask)
