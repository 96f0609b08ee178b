"""mobile: a student with MobileBERT's bottlenecks, as deep as its teacher and as wide between layers (Sun et al. 2020).

"MobileBERT: a Compact Task-Agnostic BERT for Resource-Limited Devices", section 3. Inside a layer the states are
narrow, and several small feed-forward networks follow the attention. Between layers the states are as wide as the
teacher's, so states and attention are compared layer by layer without projections (section 3.5: feature map transfer,
attention transfer). Then the student learns the teacher's probabilities and the labels, which replace the paper's
masked tokens.

Differences from the paper: its teacher has bottlenecks too and is pretrained, and its best result transfers one layer
after another. Here the teacher may be of any family and is fine-tuned on one task, and all layers are transferred at
once (section 3.6, joint knowledge transfer).
"""

from functools import partial
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field
from transformers import MobileBertConfig, PreTrainedModel

from pipelines.compression import distillation, students, transfer
from pipelines.compression.context import Context
from pipelines.compression.transfer import Rate
from pipelines.core import seeding
from pipelines.core.section import Count, Fraction, Positive
from pipelines.entries.parts.fit import Fit
from pipelines.models import backbones, heads, shapes

LONGEST = 512  # MobileBERT's maximum of tokens; longer training rows raise it, up to the teacher's maximum
EXAMPLE: dict[str, Any] = {
    "bottleneck": 8,
    "intermediate_size": 8,
    "feed_forwards": 1,
    "embedding_size": 8,
    "transfer_epochs": 1,
}


class Params(Fit):
    """The student's sizes, and the settings of both fits."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bottleneck: Count = 128  # width inside a layer; the heads share it
    intermediate_size: Count = 512  # of each feed-forward network
    feed_forwards: Count = 4  # networks in a layer
    embedding_size: Count = 128
    attention: Annotated[float, Field(ge=0)] = 1.0  # weight of the attention loss
    transfer_epochs: Positive = 10
    transfer_learning_rate: Rate = 1e-3
    temperature: distillation.Temperature = 1.0
    soft: Fraction = 0.5  # weight of the teacher's probabilities; the labels have 1 - soft, alpha of section 3.5
    learning_rate: Rate = 1e-4


def compress(context: Context, params: Params) -> PreTrainedModel:
    """Train the student and return it."""
    student = build(context, params)
    if params.attention:
        transfer.check_heads(context, student)
    rates = {"epochs": params.transfer_epochs, "learning_rate": params.transfer_learning_rate}
    teaching = transfer.every_layer(context, student, params.model_copy(update=rates), params.attention)
    second = partial(
        distillation.soft_and_hard, kind=context.task.kind, temperature=params.temperature, soft=params.soft
    )
    return teaching.train(student, second, params, logits_only=True)


def build(context: Context, params: Params) -> PreTrainedModel:
    """A MobileBERT with random weights for the teacher's vocabulary and task."""
    inner, texts = backbones.encoder(context.teacher).config, context.tokenizer
    noted = shapes.of(context.teacher).get(shapes.HEADS, [inner.num_attention_heads])
    count = max(noted)  # if layers differ, attention cannot be compared, and `check_heads` raises
    if params.bottleneck % count:
        raise students.refused("bottleneck", params.bottleneck, f" is not divisible by the teacher's {count} heads")
    config = MobileBertConfig(
        vocab_size=texts.vocab_size,
        hidden_size=inner.hidden_size,
        num_hidden_layers=students.depth(context.teacher),
        num_attention_heads=count,
        intermediate_size=params.intermediate_size,
        embedding_size=params.embedding_size,
        intra_bottleneck_size=params.bottleneck,
        num_feedforward_networks=params.feed_forwards,
        max_position_embeddings=min(backbones.max_positions(context.teacher), max(LONGEST, context.data.train.longest)),
        pad_token_id=texts.pad_id,
        **heads.names(context.task),
    )
    torch.manual_seed(seeding.derive(context.seed, "student"))
    student: PreTrainedModel = heads.AUTO[context.task.kind].from_config(config)
    advice = "make the bottleneck smaller, or intermediate_size, or feed_forwards"
    students.require_smaller(student, context.teacher, "bottleneck", params.bottleneck, advice)
    return student
