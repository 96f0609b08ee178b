"""dynamic_int8: int8 linear layers and embeddings; inputs are quantized at run time, and nothing is trained.

Zafrir et al. 2019 (Q8BERT) compare with it as "dynamic quantization". Linear layers and embeddings shrink to about a
quarter of their bytes. The speed depends on the CPU: int8 is fast with VNNI. Departure: the inputs of a layer are
quantized token by token (Yao et al. 2022, ZeroQuant), not by the range of the whole batch. So the prediction for a row
does not depend on the other rows.
"""

from typing import Any

from transformers import PreTrainedModel

from pipelines.compression.context import Context
from pipelines.core.section import Section
from pipelines.models.quantization import int8, matrices

EXAMPLE: dict[str, Any] = {}


class Params(Section):
    """No params."""


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with int8 linear layers and embeddings."""
    matrices.require_floats(context.teacher, "dynamic_int8")
    return int8.quantize(context.teacher)
