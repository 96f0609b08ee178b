"""group_quant: weights of 2 to 8 bits with a range for each group of rows and columns (Shen et al. 2020, Q-BERT).

The paper's groups are sequential output neurons, as six of them; its embeddings keep 8 bits. Files get smaller: the
weights are packed. Speed does not: a folder that is loaded, and an export, has them as fp32 again. With `epochs` the
model is fine-tuned to its rounded weights, as the paper does, and as two or three bits need it. Departures: activations
stay fp32, where the paper's have 8 bits, and its choice of bits for each layer by its Hessian is not done.
"""

from typing import Annotated

from pydantic import ConfigDict, Field
from torch import nn
from transformers import PreTrainedModel

from pipelines.compression.context import Context
from pipelines.core.section import Count
from pipelines.entries.parts.fit import Fit
from pipelines.models.quantization import fake_quantization, matrices, packed
from pipelines.training import losses

Bits = Annotated[int, Field(ge=2, le=8)]


class Params(Fit):
    """The settings of the rounding of weights, and those of fine-tuning, which `epochs: 0` leaves out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bits: Bits = 4  # of linear layers
    embedding_bits: Bits = 8
    rows: Count = 6  # of a group: output neurons, or words
    columns: Annotated[int, Field(ge=0)] = 0  # of a group; 0 takes all
    epochs: Annotated[float, Field(ge=0)] = 0


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with packed weights."""
    model = context.teacher
    matrices.require_all(model, "group_quant")
    linear, embedding = (
        packed.Grid(bits, params.rows, params.columns) for bits in (params.bits, params.embedding_bits)
    )
    if params.epochs:
        fake_quantization.insert(model, linear, embedding)
        model = context.train(model, losses.for_kind(context.task.kind), params)
    for name, part in [*model.named_modules()]:
        if isinstance(part, fake_quantization.FakeLinear | nn.Linear):
            matrices.replace(model, name, packed.PackedLinear(part, linear))
    tables = [name for name, part in model.named_modules() if isinstance(part, fake_quantization.FakeEmbedding)]
    for name in tables or matrices.embeddings(model):
        matrices.replace(model, name, packed.PackedEmbedding(model.get_submodule(name), embedding))
    return model.eval()
