"""The precision of a forward pass: bf16 or fp32."""

from typing import Any

import numpy as np
import torch

from pipelines.core import cpu


def is_bf16(precision: str) -> bool:
    """Return whether `precision` of Resources means bf16 here: "auto" on a GPU, "bf16" also on a CPU that supports it.

    A CPU without bf16 instructions takes many times as long for bf16 as for fp32.
    """
    if torch.cuda.is_available():
        return precision != "fp32"
    return precision == "bf16" and cpu.has_bf16()


def told(precision: str) -> str | None:
    """A line that says that this machine cannot use the requested precision; None if it can."""
    if precision != "bf16" or is_bf16(precision):
        return None
    return "resources.precision: this CPU has no instructions for bf16 (AVX512-BF16 or AMX); fp32 is used"


def autocast(precision: str) -> torch.autocast:
    """The context in which a forward pass has this precision."""
    return torch.autocast("cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16, enabled=is_bf16(precision))


def overflows(numbers: torch.Tensor, kind: Any) -> bool:
    """Return whether one of the float32 `numbers` is too large for NumPy's type `kind`."""
    return bool(numbers.abs().amax() > np.finfo(kind).max)
