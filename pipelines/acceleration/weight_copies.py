"""Copies of a layer's weights in 16 bits, made by few kernels; the gradients are copied back in the same way.

Autocast copies each weight with its own kernel, and each gradient back with another: 401 of the 1,444 kernels of a step
of BERT-base. In a step with few tokens a GPU waits for the host that launches them. The numbers stay the same: weights
are rounded to 16 bits, and gradients are computed in 16 bits, then summed and applied in the parameters' own precision
(mixed precision, Micikevicius et al. 2017).
"""

from itertools import chain, compress, islice
from typing import Any

import torch
from torch import nn
from torch.autograd.function import once_differentiable

Group = list[nn.Parameter]  # parameters whose copies are concatenated in one tensor


def copies(groups: list[Group], kind: torch.dtype) -> tuple[torch.Tensor, ...]:
    """One tensor of `kind` for each group, with the group's parameters concatenated along their first dimension."""
    counts = [len(group) for group in groups]
    copied: tuple[torch.Tensor, ...] = _Copies.apply(kind, counts, *chain(*groups))
    return copied


class _Copies(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, kind: torch.dtype, counts: list[int], *params: torch.Tensor) -> tuple[torch.Tensor, ...]:
        each_place, copied = places(params, counts, kind)
        torch._foreach_copy_(each_place, params)
        trains = [any(weight.requires_grad for weight in group) for group in _grouped(params, counts)]
        ctx.mark_non_differentiable(*compress(copied, [not trained for trained in trains]))
        ctx.set_materialize_grads(False)
        ctx.params, ctx.counts = params, counts
        return tuple(copied)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[Any, ...]:
        each_place, copied = places(ctx.params, ctx.counts, ctx.params[0].dtype)
        known = [gradient is not None for gradient in gradients]
        arrived = [gradient for gradient in gradients if gradient is not None]
        torch._foreach_copy_([*compress(copied, known)], arrived)
        has_gradient = chain.from_iterable([is_known] * n for is_known, n in zip(known, ctx.counts, strict=True))
        of_params = zip(each_place, has_gradient, ctx.needs_input_grad[2:], strict=True)
        return None, None, *(place if has and learns else None for place, has, learns in of_params)


def places(
    params: tuple[torch.Tensor, ...], counts: list[int], kind: torch.dtype
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """New tensors of `kind`: one in the shape of each parameter, and one for each group, in the same memory."""
    sizes = [param.numel() for param in params]
    memory = params[0].new_empty(sum(sizes), dtype=kind)
    of_params = [part.view(param.shape) for part, param in zip(memory.split(sizes), params, strict=True)]
    groups, start = [], 0
    for group in _grouped(of_params, counts):
        size, length = sum(place.numel() for place in group), sum(map(len, group))
        groups.append(group[0] if len(group) == 1 else memory[start : start + size].view(length, *group[0].shape[1:]))
        start += size
    return of_params, groups


def _grouped(items: Any, counts: list[int]) -> list[Any]:
    remaining = iter(items)
    return [list(islice(remaining, count)) for count in counts]
