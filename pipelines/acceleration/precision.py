"""The precision of a forward pass: bf16 or fp32."""

import torch


def is_bf16(precision: str) -> bool:
    """Whether `precision` of Resources is bf16; "auto" is bf16 on a GPU and fp32 without one."""
    return precision == "bf16" or (precision == "auto" and torch.cuda.is_available())


def autocast(precision: str) -> torch.autocast:
    """The context in which a forward pass has this precision."""
    return torch.autocast("cuda" if torch.cuda.is_available() else "cpu", torch.bfloat16, enabled=is_bf16(precision))
