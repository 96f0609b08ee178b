"""Fake quantization: training computes with rounded numbers, and gradients ignore the rounding.

Zafrir et al. 2019 (Q8BERT), section 2. A number x becomes the nearest of 255 steps between -range and range: with
M = 127, clamp(round(x * M / range), -M, M) * range / M. The range of a weight is its largest magnitude. The range
of an input is the exponential moving average (EMA) of the largest magnitudes of the batches.
"""

from typing import Any, Protocol

import torch
import torch.distributed as dist
from torch import nn

from pipelines.models.quantization import int8, matrices


class Rounding(Protocol):
    """A way to round the weights of a matrix (N, K)."""

    def rounded(self, weight: torch.Tensor) -> torch.Tensor: ...

    def rounded_rows(self, weight: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """`rounded(weight)[numbers]` for row numbers (..): (.., K). Only the rows that are needed are rounded."""


class _StraightThrough(torch.autograd.Function):
    """The rounded numbers, with the gradient of the identity, also for clamped x (Bengio et al. 2013)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
        return rounded.view_as(rounded)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


def straight_through(x: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    """The value of `rounded`; its gradient is passed to `x` unchanged."""
    return _StraightThrough.apply(x, rounded)  # type: ignore[no-untyped-call, no-any-return]


def symmetric(x: torch.Tensor, extent: torch.Tensor) -> torch.Tensor:
    """`x` rounded to the nearest of 255 steps between -extent and extent."""
    step = extent.clamp(min=1e-8) / int8.MOST
    return torch.round(x / step).clamp(-int8.MOST, int8.MOST) * step


def largest(x: torch.Tensor) -> torch.Tensor:
    """The largest magnitude, (), in one pass and without a tensor of magnitudes."""
    low, high = x.aminmax()
    return torch.maximum(-low, high)


class ByLargest:
    """Rounding to 255 steps, up to the largest magnitude of the matrix."""

    def rounded(self, weight: torch.Tensor) -> torch.Tensor:
        return symmetric(weight, largest(weight))

    def rounded_rows(self, weight: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        return symmetric(weight[numbers], largest(weight))


class Ema(nn.Module):
    """The range of a layer's inputs, an exponential moving average.

    A step may be computed in several parts, so `seen` keeps its largest magnitude, which is added to the average when
    the step ends. Both numbers are buffers, so checkpoints have them. Padding is ignored if `only_at` gave the tokens.
    """

    tokens: torch.Tensor | None = None  # (B, T) bool, a mask of tokens for inputs (B, T, H)
    extent: torch.Tensor  # () the average over past steps; 0 before the first step
    seen: torch.Tensor  # () the largest magnitude in this step

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("extent", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The rounded inputs; in training, their largest magnitude is recorded first."""
        if self.training:
            torch.maximum(self.seen, largest(self._counted(x.detach())).float(), out=self.seen)
        return straight_through(x, symmetric(x.detach(), self.now()))

    def _counted(self, x: torch.Tensor) -> torch.Tensor:
        if self.tokens is None or x.shape[:-1] != self.tokens.shape:
            return x
        return x.masked_fill(~self.tokens[..., None], 0)

    def now(self) -> torch.Tensor:
        """The average including this step: r + (1 - decay) (seen - r). The first step sets the average."""
        moved = self.extent + (1 - self.decay) * (self.seen - self.extent)
        moved = torch.where(self.extent > 0, moved, self.seen)
        return torch.where(self.seen > 0, moved, self.extent)

    def end_step(self) -> None:
        """Add this step to the average."""
        self.extent.copy_(self.now())
        self.seen.zero_()


class FakeLinear(nn.Module):
    """A linear layer that computes with a rounded weight and, if `inputs` is set, with rounded inputs."""

    def __init__(self, linear: nn.Linear, rounding: Rounding, decay: float | None) -> None:
        super().__init__()
        self.weight, self.bias, self.rounding = linear.weight, linear.bias, rounding
        self.inputs = None if decay is None else Ema(decay)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = straight_through(self.weight, self.rounding.rounded(self.weight.detach()))
        return nn.functional.linear(x if self.inputs is None else self.inputs(x), weight, self.bias)


class FakeEmbedding(nn.Module):
    """An embedding with a rounded table."""

    def __init__(self, embedding: nn.Embedding, rounding: Rounding) -> None:
        super().__init__()
        self.weight, self.rounding, self.padding_idx = embedding.weight, rounding, embedding.padding_idx

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        """Ids (..) to embeddings (.., H)."""
        words = nn.functional.embedding(ids, self.weight, self.padding_idx)
        return straight_through(words, self.rounding.rounded_rows(self.weight.detach(), ids))


def insert(model: nn.Module, linear: Rounding, embedding: Rounding, decay: float | None = None) -> None:
    """Replace the linear layers and embeddings of `model` by fake-quantized ones with the same parameters.

    Args:
        decay: decay of the average of the inputs' magnitudes; None: inputs are not rounded.
    """
    for name, linear_layer in matrices.linears(model).items():
        matrices.replace(model, name, FakeLinear(linear_layer, linear, decay))
    for name, table in matrices.embeddings(model).items():
        matrices.replace(model, name, FakeEmbedding(table, embedding))


def ranges(model: nn.Module) -> list[Ema]:
    """The ranges of all inputs inside `model`."""
    return [part for part in model.modules() if isinstance(part, Ema)]


def only_at(counting: list[Ema], tokens: torch.Tensor) -> None:
    """Set the mask `tokens` (B, T) bool, so that ranges ignore padding in inputs (B, T, H), until the next call.

    Inputs of other shapes, such as the states of first tokens (B, H), count completely.
    """
    for observer in counting:
        observer.tokens = tokens


def end_step(model: nn.Module) -> None:
    """Add the step to all ranges, with the largest magnitudes over all workers. It must be called after every step."""
    observers = ranges(model)
    if observers and dist.is_initialized() and dist.get_world_size() > 1:
        largest = torch.stack([observer.seen for observer in observers])
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        for observer, value in zip(observers, largest, strict=True):
            observer.seen.copy_(value)
    for observer in observers:
        observer.end_step()
