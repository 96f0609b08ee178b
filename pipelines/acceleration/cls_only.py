"""The cls-only last layer: it computes the state of [CLS] alone, because the head reads no other state.

Keys and values are computed for all tokens, everything else for the first token. The results equal those of the whole
layer, up to the order of sums. Only the products for keys and values remain, a sixth of a BERT layer's products.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers.models.modernbert.modeling_modernbert import rotate_half

from pipelines.models import backbones
from pipelines.models.features import FeaturesForSequenceClassification


def _bert(
    layer: Any, states: torch.Tensor, attention_mask: torch.Tensor | None = None, *_: Any, **__: Any
) -> torch.Tensor:
    """A layer of BERT, RoBERTa or ELECTRA: states (B, T, H) to the first token's state (B, 1, H)."""
    attention, first = layer.attention.self, states[:, :1]
    split = partial(_heads, count=attention.num_attention_heads)
    query, key, value = split(attention.query(first)), split(attention.key(states)), split(attention.value(states))
    attended = _attend(query, key, value, attention_mask, attention.dropout.p if layer.training else 0.0)
    return layer.feed_forward_chunk(layer.attention.output(attended, first))


def _modernbert(
    layer: Any,
    states: torch.Tensor,
    attention_mask: torch.Tensor | None = None,
    position_embeddings: Any = None,
    **_: Any,
) -> torch.Tensor:
    """A layer of ModernBERT, with norms before its parts and rotary positions; shapes as for `_bert`."""
    attention, normed = layer.attn, layer.attn_norm(states)
    weight, bias = attention.Wqkv.weight, attention.Wqkv.bias
    width = len(weight) // 3  # the width of the states, unless heads were removed
    query = nn.functional.linear(normed[:, :1], weight[:width], None if bias is None else bias[:width])
    both = nn.functional.linear(normed, weight[width:], None if bias is None else bias[width:])
    query, key, value = (_heads(part, width // attention.head_dim) for part in (query, *both.chunk(2, dim=-1)))
    cos, sin = (turn[:, None] for turn in position_embeddings)  # (1, 1, T, head_dim)
    query, key = _turned(query, cos[:, :, :1], sin[:, :, :1]), _turned(key, cos, sin)
    attended = _attend(query, key, value, attention_mask, attention.attention_dropout if layer.training else 0.0)
    states = states[:, :1] + attention.out_drop(attention.Wo(attended))
    return states + layer.mlp(layer.mlp_norm(states))


LAYERS: dict[str, Callable[..., torch.Tensor]] = {
    "bert": _bert,
    "roberta": _bert,
    "electra": _bert,
    "modernbert": _modernbert,
}


@contextmanager
def only(model: nn.Module, kind: str) -> Iterator[bool]:
    """Inside the block, the last layer of `model` computes only the first token's state.

    Yields whether it does: some families and heads, and some kinds of rows, need all states.
    """
    if not _applies(model, kind):
        yield False
        return
    last = backbones.layers(model)[-1]
    last.forward = partial(LAYERS[backbones.encoder(model).config.model_type], last)  # type: ignore[method-assign]
    try:
        yield True
    finally:
        del last.forward


def _applies(model: nn.Module, kind: str) -> bool:
    config = backbones.encoder(model).config
    if config.model_type not in LAYERS or kind in ("span", "tagging") or not len(backbones.layers(model)):
        return False
    if isinstance(model, FeaturesForSequenceClassification):
        return model.config.pooling == "cls" and model.config.features == "last" and model.config.head != "bilstm"
    return getattr(config, backbones.POOLING, "cls") == "cls"


def _heads(states: torch.Tensor, count: int) -> torch.Tensor:
    """(B, T, H) to (B, heads, T, H / heads)."""
    return states.unflatten(-1, (count, -1)).transpose(1, 2)


def _attend(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, mask: torch.Tensor | None, dropout: float
) -> torch.Tensor:
    """Attention of the first token to all tokens: (B, 1, H). The mask (B, 1, T, T) is the one for all tokens."""
    mask = None if mask is None else mask[:, :, :1]
    attended = nn.functional.scaled_dot_product_attention(query, key, value, mask, dropout)
    return attended.transpose(1, 2).flatten(2)


def _turned(states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """States rotated by their positions (RoPE, Su et al. 2021)."""
    return (states.float() * cos + rotate_half(states.float()) * sin).to(states.dtype)
