"""Fake quantization: while a model trains, it computes with rounded numbers, and learns as if they were not rounded.

Zafrir et al. 2019 (Q8BERT), section 2. A number x becomes the nearest of 255 steps between -range and range: with
M = 127, clamp(round(x * M / range), -M, M) * range / M. The range of a weight is its largest magnitude; that of an
input is the exponential moving average (EMA) of the largest magnitudes of the batches.
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
        """`rounded(weight)[numbers]`, for numbers (..) of rows: (.., K). Only what they need is rounded."""


class _StraightThrough(torch.autograd.Function):
    """The rounded numbers, with the gradient of x itself: 1, also where x was clamped (Bengio et al. 2013)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
        return rounded.view_as(rounded)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor, None]:
        return gradients[0], None


def straight_through(x: torch.Tensor, rounded: torch.Tensor) -> torch.Tensor:
    """`rounded`, whose gradient goes to `x` as it is."""
    return _StraightThrough.apply(x, rounded)  # type: ignore[no-untyped-call, no-any-return]


def symmetric(x: torch.Tensor, extent: torch.Tensor) -> torch.Tensor:
    """`x` at the nearest of 255 steps between -extent and extent."""
    step = extent.clamp(min=1e-8) / int8.MOST
    return torch.round(x / step).clamp(-int8.MOST, int8.MOST) * step


def largest(x: torch.Tensor) -> torch.Tensor:
    """The largest magnitude, (); in one pass, without a tensor of magnitudes."""
    low, high = x.aminmax()
    return torch.maximum(-low, high)


class ByLargest:
    """255 steps up to the largest magnitude of the matrix."""

    def rounded(self, weight: torch.Tensor) -> torch.Tensor:
        return symmetric(weight, largest(weight))

    def rounded_rows(self, weight: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        return symmetric(weight[numbers], largest(weight))


class Ema(nn.Module):
    """The range of a layer's inputs.

    A step may be computed in several parts, so what it shows is kept aside, and added once it is over. Both numbers
    are buffers: a checkpoint has them. Padding does not count, if `only_at` has said where it is.
    """

    tokens: torch.Tensor | None = None  # (B, T) bool, the places of tokens among inputs (B, T, H)
    extent: torch.Tensor  # () of the steps before; 0 before the first
    seen: torch.Tensor  # () the largest magnitude in this step

    def __init__(self, decay: float) -> None:
        super().__init__()
        self.decay = decay
        self.register_buffer("extent", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Rounded inputs; in training their magnitudes are counted first."""
        if self.training:
            torch.maximum(self.seen, largest(self._counted(x.detach())).float(), out=self.seen)
        return straight_through(x, symmetric(x.detach(), self.now()))

    def _counted(self, x: torch.Tensor) -> torch.Tensor:
        if self.tokens is None or x.shape[:-1] != self.tokens.shape:
            return x
        return x.masked_fill(~self.tokens[..., None], 0)

    def now(self) -> torch.Tensor:
        """The average with this step in it: r + (1 - decay) (seen - r). The first step is taken as it is."""
        moved = self.extent + (1 - self.decay) * (self.seen - self.extent)
        moved = torch.where(self.extent > 0, moved, self.seen)
        return torch.where(self.seen > 0, moved, self.extent)

    def end_step(self) -> None:
        """Take this step into the average."""
        self.extent.copy_(self.now())
        self.seen.zero_()


class FakeLinear(nn.Module):
    """A linear layer that computes with a rounded weight and, if it has an `inputs`, with rounded inputs."""

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
    """Let every linear layer and embedding of `model` compute with rounded numbers; its weights stay its parameters.

    Args:
        decay: of the average of the inputs' magnitudes; None leaves inputs as they are.
    """
    for name, found in matrices.linears(model).items():
        matrices.replace(model, name, FakeLinear(found, linear, decay))
    for name, table in matrices.embeddings(model).items():
        matrices.replace(model, name, FakeEmbedding(table, embedding))


def ranges(model: nn.Module) -> list[Ema]:
    """The ranges of all inputs inside `model`."""
    return [part for part in model.modules() if isinstance(part, Ema)]


def only_at(counting: list[Ema], tokens: torch.Tensor) -> None:
    """Let ranges count inputs (B, T, H) at `tokens` (B, T) bool alone, until they are told others.

    What has no such places, such as the states of first tokens (B, H), counts as it is.
    """
    for each in counting:
        each.tokens = tokens


def end_step(model: nn.Module) -> None:
    """Called after every step: the ranges take it up, as all workers saw it."""
    observers = ranges(model)
    if observers and dist.is_initialized() and dist.get_world_size() > 1:
        seen = torch.stack([observer.seen for observer in observers])
        dist.all_reduce(seen, dist.ReduceOp.MAX)
        for observer, value in zip(observers, seen, strict=True):
            observer.seen.copy_(value)
    for observer in observers:
        observer.end_step()
