"""The values that a model computes before its logits: hidden states, and the queries and keys of its attention.

B rows, each of one sequence or of several choices; S sequences of T tokens; L layers; h heads of d dimensions.
"""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from torch import nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import eager_mask

from pipelines.acceleration import attention_kernels
from pipelines.models import backbones
from pipelines.models.batch import Batch

KERNEL = "bertline_watched"  # the name of our kernel in transformers

Pair = tuple[torch.Tensor, torch.Tensor]
_caught: list[Pair] = []  # filled by the kernel while `see` runs


class ForwardStates(NamedTuple):
    """The values of one forward pass."""

    logits: torch.Tensor  # (B, C); (B, 1) for a number, (B, T, C) for tags, (B, T, 2) for the ends of a span
    hidden: tuple[torch.Tensor, ...]  # L + 1 tensors (S, T, H), the embeddings first
    # L pairs of queries and keys (S, h, T, d), the queries divided by the root of d; [] unless requested
    attention: list[Pair]

    def scores(self, layer: int) -> torch.Tensor:
        """Attention scores before the softmax in layer 1 to L: (S, h, T, T)."""
        return scores(*self.attention[layer - 1])


def logits(model: nn.Module, kind: str, batch: Batch) -> torch.Tensor:
    """The model's logits for the rows of a batch, in the shapes of `ForwardStates`."""
    output = model(**backbones.inputs(model, batch))
    return torch.stack([output.start_logits, output.end_logits], dim=-1) if kind == "span" else output.logits


def see(model: nn.Module, kind: str, batch: Batch, attention: bool = False) -> ForwardStates:
    """Run one forward pass of `model`; gradients flow through all that is returned.

    Queries and keys are recorded in the attention kernel, so rotary positions are already applied. Families with their
    own attention (DeBERTa, XLNet) and the BiLSTM record none.
    """
    hidden: list[tuple[torch.Tensor, ...]] = []

    def ask(_: nn.Module, positional: tuple[Any, ...], named: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        return positional, named | {"output_hidden_states": True}

    def catch(_: nn.Module, __: tuple[Any, ...], output: Any) -> None:
        hidden.append(output.hidden_states)

    encoder = backbones.encoder(model)
    hooks = [encoder.register_forward_pre_hook(ask, with_kwargs=True), encoder.register_forward_hook(catch)]
    _caught.clear()
    try:
        with _kernel(model) if attention else nullcontext():
            answer = logits(model, kind, batch)
        return ForwardStates(answer, hidden[0], [*_caught])
    finally:
        _caught.clear()
        for hook in hooks:
            hook.remove()


def scores(queries: torch.Tensor, keys: torch.Tensor) -> torch.Tensor:
    """Attention scores before the softmax, (S, h, T, d) twice to (S, h, T, T) (Vaswani et al. 2017, eq. 1)."""
    return queries @ keys.transpose(-1, -2)


@contextmanager
def _kernel(model: nn.Module) -> Iterator[None]:
    """Inside the block, the attention of `model` appends its queries and keys to `_caught`."""
    AttentionInterface.register(KERNEL, _attend)
    AttentionMaskInterface.register(KERNEL, eager_mask)
    parts = [part for part in model.modules() if isinstance(part, PreTrainedModel) and part.config._attn_implementation]
    implementations = [part.config._attn_implementation for part in parts]
    for part in parts:
        part.set_attn_implementation(KERNEL)
    try:
        yield
    finally:
        for part, name in zip(parts, implementations, strict=True):
            part.set_attn_implementation(name)


def _attend(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, *rest: Any, **more: Any
) -> tuple[torch.Tensor, torch.Tensor]:
    """Record the queries and keys, then call `attention_kernels.attend`."""
    scaling = more.get("scaling")  # every family passes it by name
    _caught.append((query * (query.shape[-1] ** -0.5 if scaling is None else scaling), key))
    return attention_kernels.attend(module, query, key, *rest, **more)
