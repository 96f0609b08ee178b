"""How a forward pass is computed: in which precision, and by which kernel its attention."""

import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.models.batch import Batch


def is_bf16(precision: str) -> bool:
    """`precision` of Resources: "auto" is bf16 on a GPU, fp32 without one."""
    return precision == "bf16" or (precision == "auto" and torch.cuda.is_available())


def autocast(precision: str) -> torch.autocast:
    """The context of a forward pass."""
    return torch.autocast("cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16, enabled=is_bf16(precision))


class Attention:
    """A model's kernel, chosen for each batch: on a CPU torch's fused one pays only for long rows, in fp32.

    Measured by `benchmarks/pretrain.py`, and for long rows in docs/log.md.
    """

    def __init__(self, model: nn.Module, precision: str) -> None:
        self.parts = [m for m in model.modules() if isinstance(m, PreTrainedModel) and m.config._attn_implementation]
        self.given = [part.config._attn_implementation for part in self.parts]
        self.plain_below = 0 if torch.cuda.is_available() else 2**31 if is_bf16(precision) else 256  # tokens of a row
        self.plain = False

    def choose(self, batch: Batch) -> None:
        """The kernel for rows as long as those of `batch`."""
        tokens = batch.get("attention_mask", next(iter(batch.values()))).shape[-1]
        plain = tokens < self.plain_below
        if plain != self.plain:
            self._set(["eager"] * len(self.parts) if plain else self.given)
            self.plain = plain

    def restore(self) -> None:
        """The model's own."""
        self._set(self.given)
        self.plain = False

    def _set(self, names: list[str]) -> None:
        for part, name in zip(self.parts, names, strict=True):
            part.set_attn_implementation(name)
