"""dynamic_int8: linear layers' weights as int8, their inputs quantized as they come; nothing is trained.

Zafrir et al. 2019 (Q8BERT) compare with it as "dynamic quantization". About a quarter of the bytes of the linear
layers; embeddings stay as they are. The speed gained depends on the CPU: VNNI is what int8 is fast on.
"""

from transformers import PreTrainedModel

from pipelines.core.entries import Section
from pipelines.models import int8
from pipelines.training.batches import TaskData
from pipelines.training.distributed import FitFunction


class Params(Section):
    """Nothing to choose."""


def compress(teacher: PreTrainedModel, data: TaskData, params: Params, fit: FitFunction) -> PreTrainedModel:
    return int8.quantize(teacher)
