"""tinybert: a thin student first learns the teacher's states and attention, then its predictions (Jiao et al. 2020).

"TinyBERT: Distilling BERT for Natural Language Understanding", the task-specific distillation of sections 3.1 and 3.2
in two fits. The first compares embeddings, attention and hidden states (eq. 7 to 9), the second logits (eq. 10). The
states of a narrower student are projected to the teacher's width by matrices that are trained with it and dropped
afterwards. Attention is compared before its softmax (section 3.1), with positions applied. Families whose attention
exposes no queries and keys (DeBERTa, XLNet) need `attention: 0`.

Differences from the paper: its student has 4 layers, hidden_size 312 and intermediate_size 1200, starts as a pretrained
`student`, and learns from augmented rows. Here the student may start at random, and the rows are not augmented. The
projections have no bias, as in eq. 8; the authors' code adds one.
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
EXAMPLE: dict[str, Any] = {"layers": 2, "hidden_size": 16, "heads": 2, "intermediate_epochs": 1}


class Params(students.Sized):
    """The student's size or folder, the layers that it follows, and the settings of both fits."""

    # the teacher's layer, from 1, for each layer of the student: g(m) of section 3.1, or a variant of section 4.4
    map: Literal["uniform", "top", "bottom"] | list[int] = "uniform"
    attention: Weight = 1.0  # weight of the attention loss
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
    """A student, and the matrices that project its states to the teacher's width if the widths differ."""

    def __init__(self, student: PreTrainedModel, width: int) -> None:
        super().__init__()
        self.student = student
        own_width = backbones.encoder(student).config.hidden_size
        self.of_embeddings: nn.Module = nn.Identity() if own_width == width else nn.Linear(own_width, width, bias=False)
        self.of_layers: nn.Module = nn.Identity() if own_width == width else nn.Linear(own_width, width, bias=False)

    @property
    def base_model(self) -> nn.Module:
        """The student's encoder, under the name that every model of transformers uses."""
        return backbones.encoder(self.student)


def compress(context: Context, params: Params) -> PreTrainedModel:
    """Train the student and return it."""
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
    """The teacher's layer, from 1 to `count`, for each layer of the student."""
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
        raise students.refused("map", [*sources], ": a higher layer must follow a higher layer of the teacher")
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
    """The sum over rows of L_embd + sum over layers of L_hidn + `attention` * L_attn (eq. 6), and the count."""
    assert isinstance(model, Projected)
    outputs = states.see(model.student, kind, batch, attention=bool(attention))
    mask, counted = batch["attention_mask"], distillation.counts(kind, batch)
    shape = (*mask.shape, -1)
    loss_per_row = transfer.apart(model.of_embeddings(outputs.hidden[0]).reshape(shape), targets["hidden.0"], mask)
    for layer, other in enumerate(taught, start=1):
        loss_per_row = loss_per_row + transfer.apart(
            model.of_layers(outputs.hidden[layer]).reshape(shape), targets[f"hidden.{other}"], mask
        )
        if attention:
            target = transfer.scores(targets, other, outputs.attention[layer - 1][0].shape[1])
            loss_per_row = loss_per_row + attention * attention_apart(outputs.scores(layer), target, mask)
    return (loss_per_row * counted).sum(), counted.sum()


def attention_apart(student: torch.Tensor, teacher: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean squared difference of scores (S, h, T, T) over heads and pairs of tokens, mask (B, ..., T): (B,).

    Jiao et al. 2020, eq. 7. The pairs of all sequences of a row are averaged together.
    """
    pairs = mask[..., :, None] * mask[..., None, :]  # (B, ..., T, T)
    squares = (student.float() - teacher).square().mean(dim=1).reshape(pairs.shape)
    return distillation.per_row(squares, pairs)


def prediction(
    model: nn.Module, batch: Batch, targets: teacher_outputs.TeacherOutputs, *, kind: str, temperature: float
) -> losses.Sums:
    """The cross-entropy with the teacher's probabilities (eq. 10), and the count."""
    logits = states.logits(model, kind, batch)
    total = distillation.soft_targets(kind, logits, targets["logits"], batch, temperature)
    return total, distillation.counts(kind, batch).sum()
