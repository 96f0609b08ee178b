"""dynamic_int8: int8 weights in linear layers, whose inputs are quantized at run time; nothing is trained.

Zafrir et al. 2019 (Q8BERT) compare with it as "dynamic quantization". Linear layers take about a quarter of their
bytes; embeddings stay as they are. The speed depends on the CPU: int8 is fast with VNNI.
"""

from transformers import PreTrainedModel

from pipelines.compression.context import Context
from pipelines.core.section import Section
from pipelines.models import int8


class Params(Section):
    """Nothing to choose."""


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with int8 linear layers."""
    return int8.quantize(context.teacher)
