"""Rows one after another without any padding, and attention that knows their bounds: for NVIDIA GPUs, in bf16.

The kernel is FlashAttention-2 (Dao 2023) as torch has it, `torch.nn.attention.varlen`, from an A100 on. Layers of
BERT's kind compute the same as transformers' own, with two differences: their sums and norms are in bf16 too, where
autocast takes fp32 (low-precision LayerNorm, Portes et al. 2023, MosaicBERT), and no mask is made, for which
transformers would wait for the GPU. B rows of T places hold N tokens.
"""

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from torch import nn
from torch.nn.attention.varlen import varlen_attn

from pipelines.core.ragged import offsets
from pipelines.models import backbones

AMPERE = (8, 0)  # the first generation of GPUs with the kernel
WIDEST = 256  # of a head, in dimensions, and a multiple of 8


class Flat:
    """The places of the tokens of a padded batch when they stand in one row without padding.

    `inside` (B, T) bool is in the host's memory and says which places are tokens. The rest is sent to `device` without
    waiting for it.
    """

    def __init__(self, inside: torch.Tensor, device: torch.device) -> None:
        tokens = inside.numpy()
        lengths = tokens.sum(axis=1)
        self.places, self.longest = inside.shape, int(lengths.max())
        self.spots = sent(torch.from_numpy(np.flatnonzero(tokens)), device)  # (N,) int64, through B * T
        self.bounds = sent(torch.from_numpy(offsets(lengths).astype(np.int32)), device)  # (B + 1,)

    def together(self, states: torch.Tensor) -> torch.Tensor:
        """(B, T, H) to (1, N, H), in the precision of autocast."""
        self.given, kind = states.dtype, states.device.type
        found = states.flatten(0, 1).index_select(0, self.spots)[None]
        return found.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else found

    def apart(self, states: torch.Tensor) -> torch.Tensor:
        """(1, N, H) to (B, T, H) in the precision that it had, with zeros for padding."""
        empty = states.new_zeros(self.places.numel(), states.shape[-1])
        return empty.index_copy(0, self.spots, states[0]).unflatten(0, self.places).to(self.given)

    def layer(self, layer: nn.Module, states: torch.Tensor) -> torch.Tensor:
        """The output of `layer` for the states: (1, N, H) to (1, N, H)."""
        return LAYERS[type(layer).__name__](layer, states, self)


def sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on `device`. A GPU takes it when its work before is done, and the host goes on at once."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: Flat, dropout: float) -> torch.Tensor:
    """Attention within each row, with dropout on its weights: (N, heads, H / heads) each, to the same.

    `varlen_attn` has no dropout; the operator below it has, and `torch.nested` calls that in the same way.
    """
    bounds, longest = rows.bounds, rows.longest
    if not dropout:
        exact = varlen_attn(query, key, value, bounds, bounds, longest, longest)
        return cast(torch.Tensor, exact)  # it returns a pair only where it is asked for one
    forward: Any = torch.ops.aten._flash_attention_forward
    attended: torch.Tensor = forward(query, key, value, bounds, bounds, longest, longest, dropout, False, False)[0]
    return attended


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


def serves(device: torch.device) -> bool:
    """Return whether `device` has the kernel and autocast is on, which gives the kernel the 16 bits that it needs."""
    if device.type != "cuda" or not torch.is_autocast_enabled("cuda"):
        return False
    return torch.cuda.get_device_capability(device) >= AMPERE and torch.get_autocast_dtype("cuda").itemsize == 2


def _bert(layer: Any, states: torch.Tensor, rows: Flat) -> torch.Tensor:
    """A layer of BERT, RoBERTa or ELECTRA (Devlin et al. 2018); no state is changed between precisions."""
    attention = layer.attention.self
    parts = (attention.query, attention.key, attention.value)
    query, key, value = (part(states)[0].unflatten(-1, (attention.num_attention_heads, -1)) for part in parts)
    seen = attend(query, key, value, rows, attention.dropout.p if layer.training else 0.0)
    states = _summed(layer.attention.output, seen.flatten(1)[None], states)
    return _summed(layer.output, layer.intermediate(states), states)


LAYERS: dict[str, Callable[[Any, torch.Tensor, Flat], torch.Tensor]] = {
    "BertLayer": _bert,
    "RobertaLayer": _bert,
    "ElectraLayer": _bert,
}


def _summed(part: Any, inner: torch.Tensor, outer: torch.Tensor) -> torch.Tensor:
    """The end of attention, or of the feed-forward part: its product, dropout, sum and norm."""
    states, norm = part.dropout(part.dense(inner)) + outer, part.LayerNorm
    if type(norm) is not nn.LayerNorm:
        return norm(states)  # type: ignore[no-any-return]
    with torch.autocast(states.device.type, enabled=False):  # it would take fp32
        weight, bias = norm.weight.to(states.dtype), norm.bias.to(states.dtype)
        return nn.functional.layer_norm(states, norm.normalized_shape, weight, bias, norm.eps)
