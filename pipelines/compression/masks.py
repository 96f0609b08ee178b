"""Masks of weights that are zero and stay zero while the others train, and the schedule of their number."""

from typing import Any

import torch
from torch import nn

from pipelines.models import backbones

Masks = dict[str, torch.Tensor]  # name of a matrix -> bool of its shape: which weights are left


def matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The matrices inside the encoder's layers, by their names in the model; a shared one has one name."""
    inside = {id(p) for layer in backbones.layers(model) for p in layer.parameters() if p.dim() == 2}
    return {name: p for name, p in model.named_parameters() if id(p) in inside}


def sparsity_after(round_: int, rounds: int, sparsity: float) -> float:
    """The share of zeros after round `round_` of `rounds`, from 1 on.

    Every round removes the same share of what is left (Frankle and Carbin 2019, section 1: p^(1/n) % a round).
    """
    return 1 - (1 - sparsity) ** (round_ / rounds)


@torch.no_grad()
def smallest(model: nn.Module, sparsity: float) -> Masks:
    """Masks without that share of all weights of `matrices`, rounded down: those nearest to zero, wherever they are.

    Weights that are zero already are among them.
    """
    weights = matrices(model)
    sizes = torch.cat([p.detach().abs().flatten() for p in weights.values()])
    left = torch.ones(len(sizes), dtype=torch.bool, device=sizes.device)
    left[sizes.argsort(stable=True)[: int(sparsity * len(sizes) + 1e-9)]] = False
    parts = left.split([p.numel() for p in weights.values()])
    return {name: part.view_as(p) for (name, p), part in zip(weights.items(), parts, strict=True)}


@torch.no_grad()
def put(model: nn.Module, masks: Masks) -> None:
    """Set to zero what the masks leave out."""
    parameters = dict(model.named_parameters())
    for name, mask in masks.items():
        parameters[name].masked_fill_(~mask.to(parameters[name].device), 0.0)


def share_of_zeros(model: nn.Module) -> float:
    """The share of zeros among all weights of `matrices`."""
    found = matrices(model).values()
    return sum(int((p == 0).sum()) for p in found) / sum(p.numel() for p in found)


class Kept:
    """Keeps the masks through one training: a loop's `each_step`.

    A weight without a gradient gets no step: AdamW and SGD multiply it by their decay and add nothing, so zero stays
    zero, in every checkpoint and every evaluation. The hooks are set at the first step, in the process that trains.
    """

    def __init__(self, masks: Masks) -> None:
        self.masks = masks
        self._hooks: list[Any] = []

    def __call__(self, model: nn.Module, step: int, steps: int) -> None:
        if self._hooks:
            return
        for name, parameter in model.named_parameters():
            if name in self.masks:
                mask = self.masks[name].to(parameter.device, parameter.dtype)
                self._hooks.append(parameter.register_hook(lambda gradient, mask=mask: gradient * mask))

    def end(self) -> None:
        """Let all weights train again."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_hooks": []}  # they belong to this process
