"""BERT-like layers on tokens without padding (see `varlen_attention`), with copies of their weights in 16 bits.

They compute the same as transformers' layers, with two differences. Sums and norms are in 16 bits too, while autocast
uses fp32 (low-precision LayerNorm, Portes et al. 2023, MosaicBERT). No mask is made, because transformers would wait
for the GPU to make it. N tokens have states (1, N, H).
"""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import layer_norm, linear

from pipelines.acceleration import varlen_attention, weight_copies
from pipelines.models import backbones

WIDEST = 256  # largest head, in dimensions; heads must also be a multiple of 8
LAYERS = ("BertLayer", "RobertaLayer", "ElectraLayer")  # BERT-like (Devlin et al. 2018)


def can(model: nn.Module) -> bool:
    """Return whether the layers of `model` are BERT-like and the kernel supports the size of their heads."""
    config, layers = backbones.encoder(model).config, backbones.layers(model)
    if config._attn_implementation != "sdpa" or getattr(config, "is_decoder", False):
        return False
    if not all(type(layer).__name__ in LAYERS for layer in layers):
        return False
    attentions: list[Any] = [layer.get_submodule("attention.self") for layer in layers]
    widths = [attention.attention_head_size for attention in attentions]
    return all(width % 8 == 0 and width <= WIDEST for width in widths)


def output(layer: Any, states: torch.Tensor, rows: Any) -> torch.Tensor:
    """The states after `layer`; `rows` holds the bounds of the rows among the tokens."""
    groups = weights(layer)
    if groups is None:
        return _by_modules(layer, states, rows)
    return from_copies(layer, weight_copies.copies(groups, states.dtype), states, rows)


def weights(layer: Any) -> list[weight_copies.Group] | None:
    """The weights of a layer; None if a part is adapted, has hooks or lacks a bias, so that they do not suffice."""
    attention = layer.attention.self
    projections = [attention.query, attention.key, attention.value]
    others = [layer.attention.output.dense, layer.attention.output.LayerNorm]
    others += [layer.intermediate.dense, layer.output.dense, layer.output.LayerNorm]
    if not all(map(_plain, (*projections, *others))):
        return None
    groups = [[projection.weight for projection in projections], [projection.bias for projection in projections]]
    return groups + [[parameter] for part in others for parameter in (part.weight, part.bias)]


def dropouts(layer: Any) -> tuple[float, ...]:
    """The dropout probabilities of the layer: of attention, and after both of its parts; 0 for parts in eval mode."""
    parts = (layer.attention.self.dropout, layer.attention.output.dropout, layer.output.dropout)
    return tuple(part.p if part.training else 0.0 for part in parts)


def from_copies(layer: Any, copied: tuple[torch.Tensor, ...], states: torch.Tensor, rows: Any) -> torch.Tensor:
    """The states after `layer`, computed with the copies of its `weights`; states keep their precision."""
    attention, (weight, bias, *others) = layer.attention.self, copied
    with torch.autocast(states.device.type, enabled=False):
        heads = linear(states[0], weight, bias).unflatten(-1, (3, attention.num_attention_heads, -1))
        query, key, value = heads.unbind(1)
        attended = varlen_attention.attend(query, key, value, rows, dropouts(layer)[0]).flatten(1)[None]
        states = _norm(layer.attention.output, linear(attended, *others[:2]), states, *others[2:4])
        inner = layer.intermediate.intermediate_act_fn(linear(states, *others[4:6]))
        return _norm(layer.output, linear(inner, *others[6:8]), states, *others[8:])


def _plain(part: nn.Module) -> bool:
    if type(part) not in (nn.Linear, nn.LayerNorm) or part.bias is None or "forward" in vars(part):
        return False
    return not (part._forward_hooks or part._forward_pre_hooks)


def _by_modules(layer: Any, states: torch.Tensor, rows: Any) -> torch.Tensor:
    """The states after `layer`, computed by its modules."""
    attention = layer.attention.self
    parts = (attention.query, attention.key, attention.value)
    query, key, value = (part(states)[0].unflatten(-1, (attention.num_attention_heads, -1)) for part in parts)
    attended = varlen_attention.attend(query, key, value, rows, dropouts(layer)[0]).flatten(1)[None]
    states = _summed(layer.attention.output, attended, states)
    return _summed(layer.output, layer.intermediate(states), states)


def _summed(part: Any, inner: torch.Tensor, outer: torch.Tensor) -> torch.Tensor:
    """The end of attention, or of the feed-forward part: projection, dropout, residual sum and norm."""
    inner, norm = part.dense(inner), part.LayerNorm
    if type(norm) is not nn.LayerNorm:
        states: torch.Tensor = norm(part.dropout(inner) + outer)
        return states
    with torch.autocast(outer.device.type, enabled=False):  # autocast would use fp32
        return _norm(part, inner, outer, norm.weight.to(outer.dtype), norm.bias.to(outer.dtype))


def _norm(
    part: Any, inner: torch.Tensor, outer: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    norm = part.LayerNorm
    return layer_norm(part.dropout(inner) + outer, norm.normalized_shape, weight, bias, norm.eps)
