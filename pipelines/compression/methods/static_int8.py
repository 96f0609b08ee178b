"""static_int8: int8 weights, and inputs of linear layers in 256 fixed steps with ranges measured on training rows.

Jacob et al. 2018, *Quantization and Training of Neural Networks for Efficient Integer-Arithmetic-Only Inference*,
section 2.1, applied after training: inputs have a scale and a zero, weights have a scale for each output channel
(Krishnamoorthi 2018). Softmax, normalization and activation functions stay in fp32. The model is exported as ONNX with
QuantizeLinear and DequantizeLinear.
"""

from typing import Annotated, Any

from pydantic import Field
from transformers import PreTrainedModel

from pipelines.compression import calibration
from pipelines.compression.context import Context
from pipelines.core.section import Count, Section
from pipelines.models.quantization import int8, matrices, qdq

EXAMPLE: dict[str, Any] = {"rows": 24}


class Params(Section):
    """The number of rows to measure ranges on, and the percentage of values within a range."""

    rows: Count = 300  # training rows, drawn with the entry's seed
    percentile: Annotated[float, Field(gt=50, le=100)] = 99.99  # of a layer's values within its range; 100 takes all


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with int8 linear layers and embeddings."""
    model = context.teacher
    matrices.require_all(model, "static_int8")
    ranges = calibration.ranges(context, model, params.rows, params.percentile)
    for name, linear in matrices.linears(model).items():
        if name in ranges:  # a layer that no row reaches stays as it is
            scale = int8.scales(linear.weight.detach().float())
            matrices.replace(model, name, qdq.QdqLinear.of(linear, scale, *qdq.affine(*ranges[name])))
    for name, embedding in matrices.embeddings(model).items():
        matrices.replace(model, name, int8.Int8Embedding.of(embedding))
    return model
