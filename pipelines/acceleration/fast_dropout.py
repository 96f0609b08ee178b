"""Fast dropout, which draws only 16 random bits per value: torch's dropout is slow on a CPU.

torch's dropout took a tenth of a fine-tuning step (`benchmarks/dropout.py`).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import torch
from torch import nn

DRAWN = 2**16  # the number of values of 16 bits


@contextmanager
def from_bits(model: nn.Module) -> Iterator[bool]:
    """Inside the block, every `nn.Dropout` of `model` calls `dropout`; yields whether any does. With a GPU none does.

    Each module gets its own forward; torch's function is not replaced.
    """
    dropouts = [part for part in model.modules() if type(part) is nn.Dropout and "forward" not in vars(part)]
    changed = [] if torch.cuda.is_available() else dropouts
    for part in changed:
        part.forward = partial(_forward, part)  # type: ignore[method-assign]
    try:
        yield bool(changed)
    finally:
        for part in changed:
            del part.forward


def _forward(layer: nn.Dropout, states: torch.Tensor) -> torch.Tensor:
    """Replaces `layer.forward`."""
    return dropout(states, layer.p, layer.training, layer.inplace)


def dropout(states: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """`torch.nn.functional.dropout` with `p` rounded to a multiple of 1/65,536; kept values are divided by their share.

    The bits come from NumPy's SFC64, which torch's generator seeds, so a run seeds only torch's generator.
    """
    dropped = round(p * DRAWN)
    if not training or not 0 < dropped < DRAWN or inplace or states.is_cuda:
        return nn.functional.dropout(states, p, training, inplace)
    source = np.random.Generator(np.random.SFC64(int(torch.randint(2**63 - 1, ()))))
    words = source.integers(-(2**63), 2**63 - 1, -(-states.numel() // 4), dtype=np.int64, endpoint=True)
    bits = torch.from_numpy(words.view(np.int16)[: states.numel()].reshape(states.shape))
    scale = torch.empty(states.shape, dtype=states.dtype)
    torch.ge(bits, dropped - DRAWN // 2, out=scale).mul_(DRAWN / (DRAWN - dropped))
    return states * scale
