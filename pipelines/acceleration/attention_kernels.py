"""The choice of an attention kernel: on a CPU, torch's fused kernel is faster only for long rows in fp32.

Measured by `benchmarks/pretrain.py`, and for long rows in docs/log/2026-11-training.md. All other rows use plain
attention: the matrix products, the softmax and `fast_dropout`, one after another.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from pipelines.acceleration import fast_dropout
from pipelines.acceleration.precision import is_bf16
from pipelines.models.batch import Batch

PLAIN = "bertline_plain"  # the name of our kernel in transformers
LONG = 256  # tokens of a row from which torch's fused kernel is faster in fp32


class Attention:
    """Chooses the attention kernel of a model for each batch."""

    def __init__(self, model: nn.Module, precision: str) -> None:
        self.parts = [m for m in model.modules() if isinstance(m, PreTrainedModel) and m.config._attn_implementation]
        self.given = [part.config._attn_implementation for part in self.parts]
        self.plain_below = 0 if torch.cuda.is_available() else 2**31 if is_bf16(precision) else LONG
        self.plain = False
        AttentionInterface.register(PLAIN, attend)
        AttentionMaskInterface.register(PLAIN, eager_mask)

    def choose(self, batch: Batch) -> None:
        """Choose the kernel for the length of the rows in `batch`."""
        tokens = batch.get("attention_mask", next(iter(batch.values()))).shape[-1]
        plain = tokens < self.plain_below
        if plain != self.plain:
            self._set([PLAIN] * len(self.parts) if plain else self.given)
            self.plain = plain

    def restore(self) -> None:
        """Restore the model's own kernel."""
        self._set(self.given)
        self.plain = False

    def _set(self, names: list[str]) -> None:
        for part, name in zip(self.parts, names, strict=True):
            part.set_attn_implementation(name)


class ModelKernel:
    """Keeps the model's own kernel."""

    def choose(self, batch: Batch) -> None:
        """Change nothing."""


@contextmanager
def by_length(model: nn.Module, precision: str) -> Iterator[Attention]:
    """Yield an object that chooses the kernel of `model` for each batch; afterwards the model has its own again."""
    attention = Attention(model, precision)
    try:
        yield attention
    finally:
        attention.restore()


def attend(
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    **_: Any,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Plain attention, transformers' `eager`: (B, heads, T, H / heads) to (B, T, heads, H / heads), and the weights.

    Vaswani et al. 2017, eq. 1, with dropout on the weights.
    """
    scores = torch.matmul(query, key.transpose(2, 3)) * (query.shape[-1] ** -0.5 if scaling is None else scaling)
    if attention_mask is not None:
        scores = scores + attention_mask
    weights = nn.functional.softmax(scores, dim=-1, dtype=torch.float32).to(query.dtype)
    weights = fast_dropout.dropout(weights, dropout, module.training)
    return torch.matmul(weights, value).transpose(1, 2).contiguous(), weights
