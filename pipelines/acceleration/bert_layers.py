"""Layers of BERT's kind on tokens without padding (see `varlen_attention`), from copies of their weights in 16 bits.

They compute the same as transformers' own, with two differences: their sums and norms are in 16 bits too, where
autocast takes fp32 (low-precision LayerNorm, Portes et al. 2023, MosaicBERT), and no mask is made, for which
transformers would wait for the GPU. N tokens have states (1, N, H).
"""

from typing import Any

import torch
from torch import nn
from torch.nn.functional import layer_norm, linear

from pipelines.acceleration import varlen_attention, weight_copies
from pipelines.models import backbones

WIDEST = 256  # of a head, in dimensions, and a multiple of 8
LAYERS = ("BertLayer", "RobertaLayer", "ElectraLayer")  # (Devlin et al. 2018)


def can(model: nn.Module) -> bool:
    """Return whether the layers of `model` are of BERT's kind, and the kernel takes their heads."""
    config, layers = backbones.encoder(model).config, backbones.layers(model)
    if config._attn_implementation != "sdpa" or getattr(config, "is_decoder", False):
        return False
    if not all(type(layer).__name__ in LAYERS for layer in layers):
        return False
    attentions: list[Any] = [layer.get_submodule("attention.self") for layer in layers]
    widths = [attention.attention_head_size for attention in attentions]
    return all(width % 8 == 0 and width <= WIDEST for width in widths)


def output(layer: Any, states: torch.Tensor, rows: Any) -> torch.Tensor:
    """The states after `layer`; `rows` has the bounds of the rows among the tokens."""
    groups = weights(layer)
    if groups is None:
        return _by_modules(layer, states, rows)
    return from_copies(layer, weight_copies.copies(groups, states.dtype), states, rows)


def weights(layer: Any) -> list[weight_copies.Group] | None:
    """The weights of a layer; None if it computes more than they say: if parts are adapted, or watched, or no bias."""
    attention = layer.attention.self
    projections = [attention.query, attention.key, attention.value]
    others = [layer.attention.output.dense, layer.attention.output.LayerNorm]
    others += [layer.intermediate.dense, layer.output.dense, layer.output.LayerNorm]
    if not all(map(_plain, (*projections, *others))):
        return None
    groups = [[each.weight for each in projections], [each.bias for each in projections]]
    return groups + [[each] for part in others for each in (part.weight, part.bias)]


def dropouts(layer: Any) -> tuple[float, ...]:
    """The probabilities with which the layer drops: of attention, and after both of its parts."""
    parts = (layer.attention.self.dropout, layer.attention.output.dropout, layer.output.dropout)
    return tuple(part.p if part.training else 0.0 for part in parts)


def from_copies(layer: Any, copied: tuple[torch.Tensor, ...], states: torch.Tensor, rows: Any) -> torch.Tensor:
    """The states after `layer` with the copies of its `weights`; no state is changed between precisions."""
    attention, (weight, bias, *others) = layer.attention.self, copied
    with torch.autocast(states.device.type, enabled=False):
        heads = linear(states[0], weight, bias).unflatten(-1, (3, attention.num_attention_heads, -1))
        query, key, value = heads.unbind(1)
        seen = varlen_attention.attend(query, key, value, rows, dropouts(layer)[0]).flatten(1)[None]
        states = _norm(layer.attention.output, linear(seen, *others[:2]), states, *others[2:4])
        inner = layer.intermediate.intermediate_act_fn(linear(states, *others[4:6]))
        return _norm(layer.output, linear(inner, *others[6:8]), states, *others[8:])


def _plain(part: nn.Module) -> bool:
    if type(part) not in (nn.Linear, nn.LayerNorm) or part.bias is None or "forward" in vars(part):
        return False
    return not (part._forward_hooks or part._forward_pre_hooks)


def _by_modules(layer: Any, states: torch.Tensor, rows: Any) -> torch.Tensor:
    """The same through the modules of the layer."""
    attention = layer.attention.self
    parts = (attention.query, attention.key, attention.value)
    query, key, value = (part(states)[0].unflatten(-1, (attention.num_attention_heads, -1)) for part in parts)
    seen = varlen_attention.attend(query, key, value, rows, dropouts(layer)[0]).flatten(1)[None]
    states = _summed(layer.attention.output, seen, states)
    return _summed(layer.output, layer.intermediate(states), states)


def _summed(part: Any, inner: torch.Tensor, outer: torch.Tensor) -> torch.Tensor:
    """The end of attention, or of the feed-forward part: its product, dropout, sum and norm."""
    inner, norm = part.dense(inner), part.LayerNorm
    if type(norm) is not nn.LayerNorm:
        states: torch.Tensor = norm(part.dropout(inner) + outer)
        return states
    with torch.autocast(outer.device.type, enabled=False):  # it would take fp32
        return _norm(part, inner, outer, norm.weight.to(outer.dtype), norm.bias.to(outer.dtype))


def _norm(
    part: Any, inner: torch.Tensor, outer: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
) -> torch.Tensor:
    norm = part.LayerNorm
    return layer_norm(part.dropout(inner) + outer, norm.normalized_shape, weight, bias, norm.eps)
