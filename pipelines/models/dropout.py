"""Dropout from sixteen random bits a value: torch's own draws on a CPU are slow (`benchmarks/dropout.py`).

They were a tenth of a step of fine-tuning.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import nn

DRAWN = 2**16  # values that sixteen bits have
TORCHS = nn.functional.dropout


@contextmanager
def from_bits() -> Iterator[None]:
    """Inside the block every `nn.Dropout` and `torch.nn.functional.dropout` draws as `dropout` does; nothing changes with a GPU.

    The function itself is exchanged: a mode that asks of every torch function which one it is took 0.3 to 0.4 ms a step.
    """
    nn.functional.dropout = TORCHS if torch.cuda.is_available() else dropout
    try:
        yield
    finally:
        nn.functional.dropout = TORCHS


def dropout(input: torch.Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> torch.Tensor:
    """`torch.nn.functional.dropout`, with `p` rounded to a 65,536th: values are 0 or divided by the share that stays.

    The bits are NumPy's SFC64's, which is seeded from torch's generator: a run seeds that one alone.
    """
    dropped = round(p * DRAWN)
    if not training or not 0 < dropped < DRAWN or inplace:
        return TORCHS(input, p, training, inplace)
    source = np.random.Generator(np.random.SFC64(int(torch.randint(2**63 - 1, ()))))
    words = source.integers(-(2**63), 2**63 - 1, -(-input.numel() // 4), dtype=np.int64, endpoint=True)
    bits = torch.from_numpy(words.view(np.int16)[: input.numel()].reshape(input.shape))
    kept = torch.empty(input.shape, dtype=input.dtype)
    torch.ge(bits, dropped - DRAWN // 2, out=kept).mul_(DRAWN / (DRAWN - dropped))
    return input * kept
