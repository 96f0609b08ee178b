"""Rows one after another without any padding, and attention that knows their bounds: for NVIDIA GPUs, in bf16.

The kernel is FlashAttention-2 (Dao 2023) from `torch.nn.attention.varlen`; it requires an A100 or newer. B rows of T
places hold N tokens.
"""

from typing import Any, cast

import numpy as np
import torch
from torch.nn.attention.varlen import varlen_attn

from pipelines.core.ragged import offsets

AMPERE = (8, 0)  # compute capability of the first GPUs with the kernel
BLOCK = 128  # tokens of a row that the kernel processes at once


class Flat:
    """The places of the tokens of a padded batch when they stand in one row without padding.

    `inside` (B, T) bool is in the host's memory and is True at tokens. The tensors are sent to `device`, and the host
    does not wait.

    Attributes:
        spots: (N,) int64, the tokens' places, as indices into B * T.
        bounds: (B + 1,) int32, where the rows begin and end among the tokens.
        longest: tokens of the longest row, or more.
        rounded: whether unused tokens and rows follow, so that N takes few different values.
    """

    def __init__(self, inside: torch.Tensor, device: torch.device, rounded: bool = False) -> None:
        tokens = inside.numpy()
        spots, lengths = np.flatnonzero(tokens), tokens.sum(axis=1)
        self.places, self.tokens, self.longest = inside.shape, len(spots), int(lengths.max())
        self.rounded = rounded
        if rounded:
            spots, lengths = self._rounded(spots, lengths)
        self.spots = sent(torch.from_numpy(spots), device)
        self.bounds = sent(torch.from_numpy(offsets(lengths).astype(np.int32)), device)

    def _rounded(self, spots: np.ndarray, lengths: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Append unused rows, which repeat the first place, so that a graph meets few different numbers of tokens.

        There are at most 32 numbers of tokens between one power of two and the next.
        """
        step = max(64, (1 << len(spots).bit_length()) // 32)
        self.longest = -(-self.longest // BLOCK) * BLOCK
        more = -len(spots) % step
        unread = np.clip(more - self.longest * np.arange(-(-step // self.longest)), 0, self.longest)
        return np.pad(spots, (0, more)), np.concatenate([lengths, unread])

    def together(self, states: torch.Tensor) -> torch.Tensor:
        """(B, T, H) to (1, N, H), in the precision of autocast."""
        self.given, kind = states.dtype, states.device.type
        flat = states.flatten(0, 1).index_select(0, self.spots)[None]
        return flat.to(torch.get_autocast_dtype(kind)) if torch.is_autocast_enabled(kind) else flat

    def apart(self, states: torch.Tensor) -> torch.Tensor:
        """(1, N, H) to (B, T, H) in the precision of the input of `together`, with zeros for padding."""
        empty = states.new_zeros(self.places.numel(), states.shape[-1])
        tokens = states[0, : self.tokens]
        return empty.index_copy(0, self.spots[: self.tokens], tokens).unflatten(0, self.places).to(self.given)


def sent(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """The tensor on `device`. The copy to a GPU is asynchronous, so the host does not wait."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def attend(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, rows: Any, dropout: float) -> torch.Tensor:
    """Attention within each row, with dropout on its weights: three tensors (N, heads, H / heads) to one.

    `rows` has `bounds` and `longest`, as Flat has them. `varlen_attn` has no dropout. The operator below it does, and
    `torch.nested` calls it in the same way.
    """
    bounds, longest = rows.bounds, rows.longest
    if not dropout:
        exact = varlen_attn(query, key, value, bounds, bounds, longest, longest)
        return cast(torch.Tensor, exact)  # it returns a pair only on request
    forward: Any = torch.ops.aten._flash_attention_forward
    attended: torch.Tensor = forward(query, key, value, bounds, bounds, longest, longest, dropout, False, False)[0]
    return attended


def serves(device: torch.device) -> bool:
    """Return whether `device` has the kernel and autocast is on, which provides the 16 bits that the kernel needs."""
    if device.type != "cuda" or not torch.is_autocast_enabled("cuda"):
        return False
    return torch.cuda.get_device_capability(device) >= AMPERE and torch.get_autocast_dtype("cuda").itemsize == 2
