"""bilstm_student: a bidirectional LSTM with the teacher's vocabulary learns the teacher's logits (Tang et al. 2019).

"Distilling Task-Specific Knowledge from BERT into Simple Neural Networks", section 3: the last states of both
directions, a hidden layer, and logits. The loss is the squared distance to the teacher's logits, without labels. Two
texts are compared by u, v, |u - v| and u * v (section 3.1).

Differences from the paper: the embeddings are learned from the rows and as wide as one direction, instead of
word2vec's; the hidden layer has GELU; u and v are means over one pass over both texts; the rows are not augmented; the
optimizer is AdamW instead of AdaDelta.
"""

from functools import partial
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field
from torch import nn
from transformers import PreTrainedModel

from pipelines.compression import distillation, states, students, teacher_outputs
from pipelines.compression.context import Context
from pipelines.core import seeding
from pipelines.core.errors import one_line
from pipelines.core.section import Count, Fraction, Positive
from pipelines.entries.parts.fit import Fit
from pipelines.models import backbones, heads
from pipelines.models.batch import Batch
from pipelines.models.bilstm import BilstmConfig
from pipelines.models.features import FeaturesConfig
from pipelines.training import losses

EXAMPLE: dict[str, Any] = {"hidden_size": 16}


class Params(Fit):
    """The LSTM's size, and the settings of the training."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    hidden_size: Count = 300  # of both directions together
    layers: Count = 1
    dropout: Fraction = 0.1
    epochs: Positive = 30
    learning_rate: Annotated[float, Field(gt=0, lt=10)] = 1e-3


def compress(context: Context, params: Params) -> PreTrainedModel:
    """Train the student and return it."""
    student = build(context, params)
    teaching = teacher_outputs.ask(context)
    return teaching.train(student, partial(loss, kind=context.task.kind), params, logits_only=True)


def build(context: Context, params: Params) -> PreTrainedModel:
    """A BiLSTM with random weights under one of bertline's own heads."""
    task, texts = context.task, context.tokenizer
    auto = heads.AUTO[task.kind]
    if auto not in heads.OURS:
        raise students.refused("method", "bilstm_student", f": a BiLSTM has no head for rows of kind {task.kind}")
    positions = backbones.max_positions(context.teacher)
    try:
        inner = BilstmConfig(
            vocab_size=texts.vocab_size,
            hidden_size=params.hidden_size,
            num_hidden_layers=params.layers,
            max_position_embeddings=positions,
            hidden_dropout_prob=params.dropout,
            pad_token_id=texts.pad_id,
        )
    except ValueError as error:
        raise students.refused("hidden_size", params.hidden_size, f": {one_line(error)}") from None
    pooling = {"single": "ends", "tagging": "cls"}.get(task.kind, "compare")
    torch.manual_seed(seeding.derive(context.seed, "student"))
    student: PreTrainedModel = heads.OURS[auto](FeaturesConfig(inner, "last", "mlp", pooling, **heads.names(task)))
    students.require_smaller(student, context.teacher, "hidden_size", params.hidden_size)
    return student


def loss(model: nn.Module, batch: Batch, targets: teacher_outputs.TeacherOutputs, *, kind: str) -> losses.Sums:
    """The sum over rows of ||z_student - z_teacher||^2 (section 3.2), and the count."""
    logits = states.logits(model, kind, batch)
    return distillation.squared(kind, logits, targets["logits"], batch), distillation.counts(kind, batch).sum()
