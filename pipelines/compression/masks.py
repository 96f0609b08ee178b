"""Masks that keep weights at zero while the others train, and the schedule of the share of zeros."""

from typing import Any

import torch
from torch import nn

from pipelines.models import backbones

Masks = dict[str, torch.Tensor]  # name of a matrix -> bool of its shape: True for weights that stay


def matrices(model: nn.Module) -> dict[str, nn.Parameter]:
    """The matrices inside the encoder's layers, by their names in the model; a shared matrix has one name."""
    inside = {id(p) for layer in backbones.layers(model) for p in layer.parameters() if p.dim() == 2}
    return {name: p for name, p in model.named_parameters() if id(p) in inside}


def sparsity_after(round_: int, rounds: int, sparsity: float) -> float:
    """The share of zeros after round `round_` of `rounds`, from 1 on.

    Every round removes the same share of the remaining weights (Frankle and Carbin 2019, section 1: p^(1/n) % a round).
    """
    return 1 - (1 - sparsity) ** (round_ / rounds)


@torch.no_grad()
def smallest(model: nn.Module, sparsity: float) -> Masks:
    """Masks without the share `sparsity` of all weights of `matrices`, rounded down: the weights nearest to zero.

    The weights of all matrices are compared with each other. Weights that are already zero count among the smallest.
    """
    weights = matrices(model)
    sizes = torch.cat([p.detach().abs().flatten() for p in weights.values()])
    stay = torch.ones(len(sizes), dtype=torch.bool, device=sizes.device)
    stay[sizes.argsort(stable=True)[: int(sparsity * len(sizes) + 1e-9)]] = False
    parts = stay.split([p.numel() for p in weights.values()])
    return {name: part.view_as(p) for (name, p), part in zip(weights.items(), parts, strict=True)}


@torch.no_grad()
def put(model: nn.Module, masks: Masks) -> None:
    """Set the weights that the masks leave out to zero."""
    parameters = dict(model.named_parameters())
    for name, mask in masks.items():
        parameters[name].masked_fill_(~mask.to(parameters[name].device), 0.0)


def share_of_zeros(model: nn.Module) -> float:
    """The share of zeros among all weights of `matrices`."""
    weights = matrices(model).values()
    return sum(int((p == 0).sum()) for p in weights) / sum(p.numel() for p in weights)


class MaskHooks:
    """Keeps masked weights at zero during one training; pass it as `each_step`.

    It sets the gradients of these weights to zero. AdamW and SGD then only multiply the weights by their decay, so they
    stay zero in every checkpoint and every evaluation. The hooks are set at the first step, in the process that trains.
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
        """Remove the hooks, so that all weights train again."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_hooks": []}  # hooks belong to this process
