"""The importance of heads and of feed-forward rows (Michel et al. 2019, "Are Sixteen Heads Really Better than One?").

The output of each part is multiplied by a mask of 1. The importance of a part is the mean over training rows of the
absolute gradient of a row's loss with respect to this mask (equation 3). To first order, this is the change of the loss
if the part is removed. The importances of a layer are divided by their l2 norm (section 4.1, after Molchanov et al.
2017).
"""

from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.core.errors import UsageError
from pipelines.models.batch import Batch
from pipelines.training.losses import Loss


class _Masked:
    """Masks of ones on the inputs of some linear layers while hooks are set: one value for each sequence and part."""

    def __init__(self, after: list[nn.Linear], sizes: list[int]) -> None:
        self.sizes = sizes
        self.masks: dict[int, torch.Tensor] = {}  # number of the layer -> (S, parts), in the current pass
        self.hooks = [linear.register_forward_pre_hook(partial(self._mask, i)) for i, linear in enumerate(after)]

    def _mask(self, number: int, _: nn.Module, inputs: Any) -> Any:
        (states,) = inputs
        parts = states.unflatten(-1, (-1, self.sizes[number]))  # (S, T, parts, size)
        if number not in self.masks:  # a layer that is used several times has one mask
            self.masks[number] = states.new_ones(len(states), parts.shape[-2], requires_grad=True)
        return ((parts * self.masks[number][:, None, :, None]).flatten(-2),)


def measure(
    model: nn.Module, batches: Iterator[Batch], loss: Loss, after: list[nn.Linear], sizes: list[int]
) -> list[np.ndarray]:
    """The importance of the parts that each linear layer of `after` reads, before normalization.

    Args:
        batches: rows with their labels; the model reads each of a row's S / B sequences separately.
        after: linear layers (H, width).
        sizes: for each layer, the number of neighbouring inputs that form one part: the size of a head, or 1.

    Returns:
        For each layer float64 numbers (width / size,), at least 0.
    """
    sums, count = [np.zeros(linear.in_features // size) for linear, size in zip(after, sizes, strict=True)], 0
    device, masked = next(model.eval().parameters()).device, _Masked(after, sizes)
    try:
        for batch in batches:
            masked.masks.clear()
            rows = len(batch["input_ids"])
            total, _ = loss(model, {name: tensor.to(device) for name, tensor in batch.items()}, 0)
            masks = [masked.masks[i] for i in range(len(after))]
            for number, gradient in enumerate(torch.autograd.grad(total, masks, allow_unused=True)):
                if gradient is None:  # the head does not read this layer, so its parts change nothing
                    continue
                # the sequences of a row are adjacent
                of_row = gradient.double().unflatten(0, (rows, -1)).sum(dim=1)
                sums[number] += of_row.abs().sum(dim=0).cpu().numpy()
            count += rows
    finally:
        for hook in masked.hooks:
            hook.remove()
    return [total / max(1, count) for total in sums]


def normalized(importance: list[np.ndarray]) -> list[np.ndarray]:
    """Each layer's importances divided by their l2 norm, so that layers can be compared."""
    return [layer / max(float(np.linalg.norm(layer)), 1e-30) for layer in importance]


def staying(importance: list[np.ndarray], remove: int, least: int) -> list[list[int]]:
    """For each layer, the numbers of the parts that stay if the `remove` least important of all layers are removed.

    Every layer keeps at least its `least` most important parts. Among equally important parts the first ones are
    removed, from the lowest layer up. `remove` must be a number that `number_of` accepts.
    """
    safe = [set(np.argsort(-values, kind="stable")[:least].tolist()) for values in importance]
    order = [
        (float(value), layer, part)
        for layer, values in enumerate(importance)
        for part, value in enumerate(values)
        if part not in safe[layer]
    ]
    gone = {(layer, part) for _, layer, part in sorted(order)[:remove]}
    return [[p for p in range(len(values)) if (layer, p) not in gone] for layer, values in enumerate(importance)]


def number_of(share: float, counts: list[int], least: int, what: str) -> int:
    """The number of parts in a `share` of all parts, rounded down.

    Raises UsageError if that is none, or if a layer would keep fewer than `least`.
    """
    total, most = sum(counts), sum(max(0, count - least) for count in counts)
    remove = int(share * total + 1e-9)
    if not remove:
        raise UsageError(f"params.yaml: compress: share: {share} of {total} {what} is less than one; raise it")
    if remove > most:
        raise UsageError(
            f"params.yaml: compress: share: {share} of {total} {what} is {remove}; at most {most} can go, because each "
            f"layer keeps {least}"
        )
    return remove


def rounds(remove: int, count: int) -> list[int]:
    """Divide `remove` into `count` rounds, as evenly as whole numbers allow; empty rounds are left out."""
    ends = [round(remove * i / count) for i in range(count + 1)]
    return [b - a for a, b in pairwise(ends) if b > a]
