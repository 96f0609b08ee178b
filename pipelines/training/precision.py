"""bfloat16 where it is asked for, or where a machine is known to gain from it."""

import torch


def autocast(precision: str) -> torch.autocast:
    """The context of a forward pass; `precision` of Resources: "auto" is bf16 on a GPU, fp32 without one."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    bf16 = precision == "bf16" or (precision == "auto" and device == "cuda")
    return torch.autocast(device, torch.bfloat16, enabled=bf16)
