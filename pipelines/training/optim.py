"""Optimizers and learning-rate schedules."""

import math
from typing import Any

import torch
from torch import nn

from pipelines.entries.parts.fit import Fit

Group = dict[str, Any]  # {"params": [...], "lr": float}, as torch.optim takes it


def all_parameters(model: nn.Module, learning_rate: float) -> list[Group]:
    """One group with every parameter that trains."""
    return [{"params": [p for p in model.parameters() if p.requires_grad], "lr": learning_rate}]


def optimizer(model: nn.Module, groups: list[Group], params: Fit) -> torch.optim.Optimizer:
    """AdamW or SGD over `groups`. Biases and norms have no weight decay, as in the code of Devlin et al. 2018."""
    # XLNet's biases have two dimensions: heads and width
    biases = {id(p) for name, p in model.named_parameters() if name.endswith("bias")}
    split = [part for group in groups for part in _split_decay(group, biases, params.weight_decay)]
    if params.optimizer == "sgd":
        return torch.optim.SGD(split, lr=params.learning_rate, momentum=params.momentum)
    return torch.optim.AdamW(split, lr=params.learning_rate, fused=True)


def _split_decay(group: Group, biases: set[int], weight_decay: float) -> list[Group]:
    matrices = [p for p in group["params"] if p.dim() > 1 and id(p) not in biases]
    others = [p for p in group["params"] if p.dim() <= 1 or id(p) in biases]
    parts = [
        {**group, "params": matrices, "weight_decay": weight_decay},
        {**group, "params": others, "weight_decay": 0.0},
    ]
    return [part for part in parts if part["params"]]


def scale(trained: list[nn.Parameter], by: float | torch.Tensor, greatest: float) -> None:
    """Multiply the gradients by `by` and clip them to the norm `greatest`, in one pass; 0 does not clip."""
    gradients, by = [p.grad for p in trained if p.grad is not None], float(by)
    if greatest:
        norm = by * float(nn.utils.get_total_norm(gradients))
        by *= min(1.0, greatest / (norm + 1e-6))
    if by != 1.0:
        torch._foreach_mul_(gradients, by)


def scale_there(trained: list[nn.Parameter], by: float | torch.Tensor, greatest: float) -> None:
    """Do the same as `scale` on a GPU, where the factor stays: reading it would wait for the backward pass."""
    gradients = [p.grad for p in trained if p.grad is not None]
    if greatest:
        by = by * (greatest / (by * nn.utils.get_total_norm(gradients) + 1e-6)).clamp(max=1.0)
    if isinstance(by, torch.Tensor):
        torch._foreach_mul_(gradients, by.to(gradients[0].dtype))


def factor(step: int, steps: int, params: Fit) -> float:
    """The factor of every learning rate at `step` of `steps`: a linear rise over the warm-up, then the schedule."""
    warm = round(params.warmup * steps)
    if step < warm:
        return (step + 1) / (warm + 1)
    done = (step - warm) / max(1, steps - warm)
    if params.schedule == "linear":
        return 1 - done
    if params.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * done))
    return 1.0
