"""group_quant: weights of 2 to 8 bits with a range for each group of rows and columns (Shen et al. 2020, Q-BERT).

The paper's groups are consecutive output neurons, such as six; its embeddings keep 8 bits. Files get smaller, because
the weights are packed. Speed stays the same: a loaded folder, and an export, have the weights as fp32 again. With
`epochs` the model is fine-tuned with rounded weights, as in the paper; two or three bits need this.

Differences from the paper: activations stay fp32 instead of 8 bits, and the bits of a layer are not chosen by its
Hessian.
"""

from typing import Annotated, Any

from pydantic import ConfigDict, Field
from torch import nn
from transformers import PreTrainedModel

from pipelines.compression.context import Context
from pipelines.core.section import Count
from pipelines.entries.parts.fit import Fit
from pipelines.models.quantization import fake_quantization, matrices, packed
from pipelines.training import losses

Bits = Annotated[int, Field(ge=2, le=8)]
EXAMPLE: dict[str, Any] = {"bits": 4, "rows": 2}


class Params(Fit):
    """The settings of rounding, and those of fine-tuning (`epochs: 0` skips it)."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    bits: Bits = 4  # of linear layers
    embedding_bits: Bits = 8
    rows: Count = 6  # output neurons, or words, in a group
    columns: Annotated[int, Field(ge=0)] = 0  # columns in a group; 0 takes all
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
