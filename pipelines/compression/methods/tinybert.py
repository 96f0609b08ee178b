"""tinybert: a thin student first learns how the teacher computes, then what it predicts (Jiao et al. 2020).

"TinyBERT: Distilling BERT for Natural Language Understanding", the task-specific distillation of sections 3.1 and 3.2
in two fits: embeddings, attention and hidden states (eq. 7 to 9), then logits (eq. 10). The paper's student has 4
layers, hidden_size 312 and intermediate_size 1200, begins as a pretrained `student`, and learns from augmented rows;
here it may begin at random, and the rows are those of the task. A narrower student's states are projected to the
teacher's width by matrices that are learned with it and not kept. Attention is compared before its softmax (section
3.1), positions included. The matrices have no bias, as eq. 8 has none; the authors' code adds one. Families
whose attention shows no queries and keys (DeBERTa, XLNet) need `attention: 0`.
"""

from functools import partial
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, field_validator
from torch import nn
from transformers import PreTrainedModel

from pipelines.compression import distillation, states, students, teacher_outputs, transfer
from pipelines.compression.context import Context
from pipelines.compression.transfer import Rate
from pipelines.core import seeding
from pipelines.core.section import Positive
from pipelines.models import backbones
from pipelines.models.batch import Batch
from pipelines.training import losses

Weight = Annotated[float, Field(ge=0)]


class Params(students.Sized):
    """The student's size or folder, the layers that it follows, and the settings of both fits."""

    # the teacher's layer, from 1, for each of the student's: g(m) of section 3.1, and its variants of section 4.4
    map: Literal["uniform", "top", "bottom"] | list[int] = "uniform"
    attention: Weight = 1.0  # of the attention's loss
    intermediate_epochs: Positive = 20
    intermediate_learning_rate: Rate = 5e-5
    temperature: distillation.Temperature = 1.0
    epochs: Positive = 3
    learning_rate: Rate = 3e-5

    @field_validator("map", mode="before")
    @classmethod
    def _name_or_layers(cls, value: Any) -> Any:
        layers = isinstance(value, list) and all(type(layer) is int for layer in value)
        if not layers and value not in ("uniform", "top", "bottom"):
            raise ValueError("uniform, top, bottom, or a list of the teacher's layers, such as [3, 6], is expected")
        return value


class Projected(nn.Module):
    """A student, and the matrices that bring its states to the teacher's width, if that is another."""

    def __init__(self, student: PreTrainedModel, width: int) -> None:
        super().__init__()
        self.student = student
        own = backbones.encoder(student).config.hidden_size
        self.of_embeddings: nn.Module = nn.Identity() if own == width else nn.Linear(own, width, bias=False)
        self.of_layers: nn.Module = nn.Identity() if own == width else nn.Linear(own, width, bias=False)

    @property
    def base_model(self) -> nn.Module:
        """The student's encoder, under the name that it has in every model of transformers."""
        return backbones.encoder(self.student)


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The student."""
    student = students.sized(context, params)
    taught = followed(students.depth(context.teacher), students.depth(student), params.map)
    if params.attention:
        transfer.check_heads(context, student)
    request = teacher_outputs.OutputRequest(hidden=(0, *taught), attention=taught if params.attention else ())
    teaching = teacher_outputs.ask(context, request)
    torch.manual_seed(seeding.derive(context.seed, "projections"))
    projected = Projected(student, backbones.encoder(context.teacher).config.hidden_size)
    first = partial(inside, kind=context.task.kind, taught=taught, attention=params.attention)
    rates = {"epochs": params.intermediate_epochs, "learning_rate": params.intermediate_learning_rate}
    transfer.fit(teaching, projected, student, first, params.model_copy(update=rates))
    second = partial(prediction, kind=context.task.kind, temperature=params.temperature)
    return teaching.train(student, second, params, logits_only=True)


def followed(count: int, layers: int, how: str | list[int]) -> tuple[int, ...]:
    """The teacher's layer, of `count`, for each layer of the student."""
    if how == "uniform" and count % layers:
        raise students.refused("map", how, f": {count} layers of the teacher do not divide evenly among {layers}")
    named = {"top": range(count - layers + 1, count + 1), "bottom": range(1, layers + 1)}
    every = max(1, count // layers)
    named["uniform"] = range(every, count + 1, every)
    sources = tuple(named[how]) if isinstance(how, str) else tuple(how)
    if len(sources) != layers:
        raise students.refused(
            "map", [*sources], f" names {len(sources)} layers; the student has {layers}, each needs one"
        )
    if wrong := [layer for layer in sources if not 1 <= layer <= count]:
        raise students.refused("map", [*sources], f": the teacher has no layer {wrong[0]}; it has layers 1 to {count}")
    if [*sources] != sorted(set(sources)):
        raise students.refused("map", [*sources], ": a higher layer of the student must follow a higher one")
    return sources


def inside(
    model: nn.Module,
    batch: Batch,
    targets: teacher_outputs.TeacherOutputs,
    *,
    kind: str,
    taught: tuple[int, ...],
    attention: float,
) -> losses.Sums:
    """L_embd + sum over layers of L_hidn + L_attn (eq. 6 with all weights 1), for each row."""
    assert isinstance(model, Projected)
    seen = states.see(model.student, kind, batch, attention=bool(attention))
    mask, counted = batch["attention_mask"], distillation.counts(kind, batch)
    shape = (*mask.shape, -1)
    loss_per_row = transfer.apart(model.of_embeddings(seen.hidden[0]).reshape(shape), targets["hidden.0"], mask)
    for layer, other in enumerate(taught, start=1):
        loss_per_row = loss_per_row + transfer.apart(
            model.of_layers(seen.hidden[layer]).reshape(shape), targets[f"hidden.{other}"], mask
        )
        if attention:
            wanted = transfer.scores(targets, other, seen.attention[layer - 1][0].shape[1])
            loss_per_row = loss_per_row + attention * attention_apart(seen.scores(layer), wanted, mask)
    return (loss_per_row * counted).sum(), counted.sum()


def attention_apart(student: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean squared difference of scores (S, h, T, T) over heads and pairs of tokens, mask (B, ..., T): (B,).

    Jiao et al. 2020, eq. 7. S sequences; a row of several has the mean of all of its pairs.
    """
    pairs = mask[..., :, None] * mask[..., None, :]  # (B, ..., T, T)
    squares = (student.float() - teacher).square().mean(dim=1).reshape(pairs.shape)
    return distillation.per_row(squares, pairs)


def prediction(
    model: nn.Module, batch: Batch, targets: teacher_outputs.TeacherOutputs, *, kind: str, temperature: float
) -> losses.Sums:
    """The cross-entropy of the teacher's probabilities (eq. 10)."""
    logits = states.logits(model, kind, batch)
    total = distillation.soft_targets(kind, logits, targets["logits"], batch, temperature)
    return total, distillation.counts(kind, batch).sum()
