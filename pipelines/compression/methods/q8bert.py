"""q8bert: quantization-aware fine-tuning with 8-bit numbers, then conversion to int8 (Zafrir et al. 2019, Q8BERT).

Every linear layer and embedding computes with its weight in 255 symmetric steps. A linear layer also rounds its inputs.
Their range is an exponential moving average of the largest magnitudes at tokens, without padding. Gradients pass the
rounding unchanged (`models/quantization/fake_quantization.py`). Softmax, normalization and GELU stay in fp32. The model
is exported as ONNX with QuantizeLinear and DequantizeLinear. If inputs exceed their range, the export has one more
step, -128. Biases stay in fp32; the paper has int32.

The average starts with the magnitudes of the first step, without bias correction. The authors' decay of 0.9999 suits
their many thousands of steps: after a hundred steps the average still holds 99% of the first value. `ema_decay: 0.99`
follows faster.
"""

from functools import partial
from typing import Annotated, Any

import torch
from pydantic import ConfigDict, Field
from torch import nn
from transformers import PreTrainedModel

from pipelines.compression.context import Context
from pipelines.entries.parts.fit import Fit
from pipelines.models.batch import Batch
from pipelines.models.quantization import fake_quantization, int8, matrices, qdq
from pipelines.training import losses

EXAMPLE: dict[str, Any] = {"ema_decay": 0.9}


class Params(Fit):
    """The decay of the average, by default as in the authors' code, and the settings of fine-tuning."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    ema_decay: Annotated[float, Field(ge=0, lt=1)] = 0.9999


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher, trained for int8, with int8 linear layers and embeddings."""
    model = context.teacher
    matrices.require_all(model, "q8bert")
    rounding = fake_quantization.ByLargest()
    fake_quantization.insert(model, rounding, rounding, decay=params.ema_decay)
    at_tokens = partial(loss, task=losses.for_kind(context.task.kind))
    # without `kind`: accelerations for a head would bypass these layers, or give them other tokens
    return rounded(context.train(model, at_tokens, params, after_step=fake_quantization.end_step))


def loss(model: nn.Module, batch: Batch, step: int, *, task: losses.Loss) -> losses.Sums:
    """The task's loss; the ranges of inputs are updated at tokens only, not at padding."""
    fake_quantization.only_at(fake_quantization.ranges(model), batch["attention_mask"].flatten(0, -2).bool())
    return task(model, batch, step)


def rounded(model: PreTrainedModel) -> PreTrainedModel:
    """Replace the fake-quantized layers of `model` by layers with int8 weights."""
    for name, part in [*model.named_modules()]:
        if isinstance(part, fake_quantization.FakeLinear) and part.inputs is not None:
            step, zero = qdq.symmetric(part.inputs.now())
            matrices.replace(model, name, qdq.QdqLinear.of(part, scale(part), step, zero))
        elif isinstance(part, fake_quantization.FakeEmbedding):
            weight = int8.rounded(part.weight.detach().float(), scale(part))
            matrices.replace(model, name, int8.Int8Embedding(weight, scale(part)))
    return model.eval()


def scale(part: fake_quantization.FakeLinear | fake_quantization.FakeEmbedding) -> torch.Tensor:
    """The step size of a weight, (1,)."""
    return part.weight.detach().float().abs().amax().reshape(1).clamp(min=1e-8) / int8.MOST
