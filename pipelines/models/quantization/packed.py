"""Weights of 2 to 8 bits, packed into bytes, with a range for each group of rows and columns.

Shen et al. 2020 (Q-BERT), section 3: every group of a matrix, such as six consecutive output neurons, has its own
range from its smallest to its largest weight, divided into 2^bits - 1 equal steps.
"""

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn


@dataclass(frozen=True)
class Grid:
    """The grid of a rounded matrix: `rows` x `columns` weights share a range; 0 columns means all columns."""

    bits: int
    rows: int
    columns: int = 0

    def groups(self, weight: torch.Tensor) -> torch.Tensor:
        """(N, K) as (N / rows, rows, K / columns, columns); incomplete groups repeat their last values."""
        rows, columns = min(self.rows, len(weight)), self._columns(weight.shape[1])
        down, right = -len(weight) % rows, -weight.shape[1] % columns
        weight = torch.cat([weight, weight[-1:].expand(down, -1)])
        weight = torch.cat([weight, weight[:, -1:].expand(-1, right)], dim=1)
        return weight.unflatten(1, (-1, columns)).unflatten(0, (-1, rows))

    def encode(self, weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Numbers (N, K) uint8 below 2^bits, and each group's step and minimum, (N / rows, K / columns).

        A group of equal weights has the step 0.
        """
        groups = self.groups(weight)
        least = groups.amin(dim=(1, 3))
        step = (groups.amax(dim=(1, 3)) - least) / (2**self.bits - 1)
        by = torch.where(step > 0, step, torch.ones_like(step))
        numbers = torch.round((groups - least[:, None, :, None]) / by[:, None, :, None]).clamp_(0, 2**self.bits - 1)
        return self._cut(numbers, weight.shape).to(torch.uint8), step, least

    def decode(self, numbers: torch.Tensor, step: torch.Tensor, least: torch.Tensor) -> torch.Tensor:
        """The rounded weights (N, K) of `encode`."""
        weights = self.groups(numbers.float()) * step[:, None, :, None] + least[:, None, :, None]
        return self._cut(weights, numbers.shape)

    def rounded(self, weight: torch.Tensor) -> torch.Tensor:
        """A weight (N, K) as it is after `encode` and `decode`."""
        return self.decode(*self.encode(weight))

    def rounded_rows(self, weight: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        """`rounded(weight)[numbers]` for row numbers (..): (.., K). Only the groups of these rows are rounded."""
        first, group = torch.unique(numbers // self.rows * self.rows, return_inverse=True)
        members = first[:, None] + torch.arange(self.rows, device=first.device)
        weights = self.rounded(weight[members.flatten().clamp(max=len(weight) - 1)])  # the last group is padded
        return weights[group * self.rows + numbers % self.rows]

    def _columns(self, width: int) -> int:
        return min(self.columns or width, width)

    @staticmethod
    def _cut(groups: torch.Tensor, shape: torch.Size) -> torch.Tensor:
        """The matrix that was divided into `groups`, without the values that were repeated to fill groups."""
        return groups.flatten(2, 3).flatten(0, 1)[: shape[0], : shape[1]].contiguous()


def pack(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Numbers (n,) uint8 below 2^bits as a row of bits, most significant first: (ceil(n * bits / 8),) uint8."""
    return np.packbits(np.unpackbits(numbers[:, None], axis=1)[:, 8 - bits :])


def unpack(packed: np.ndarray, bits: int, count: int) -> np.ndarray:
    """The first `count` numbers of a result of `pack`, (count,) uint8."""
    bit_rows = np.unpackbits(packed, count=count * bits).reshape(count, bits)
    return np.packbits(np.pad(bit_rows, ((0, 0), (8 - bits, 0))), axis=1)[:, 0]


class PackedWeight(nn.Module):
    """A matrix (N, K) in packed form; `weight` returns it unpacked."""

    packed: torch.Tensor
    step: torch.Tensor
    least: torch.Tensor

    def __init__(
        self, grid: Grid, shape: tuple[int, int], packed: torch.Tensor, step: torch.Tensor, least: torch.Tensor
    ) -> None:
        super().__init__()
        self.grid, self.shape = grid, shape
        self.register_buffer("packed", packed)
        self.register_buffer("step", step)
        self.register_buffer("least", least)

    @classmethod
    def of(cls, weight: torch.Tensor, grid: Grid) -> "PackedWeight":
        """Round `weight` (N, K) and pack it."""
        numbers, step, least = grid.encode(weight.detach().float())
        packed = torch.from_numpy(pack(numbers.flatten().cpu().numpy(), grid.bits))
        return cls(grid, (len(weight), weight.shape[1]), packed.to(step.device), step, least)

    def weight(self) -> torch.Tensor:
        """The rounded weight, (N, K)."""
        rows, columns = self.shape
        numbers = unpack(self.packed.cpu().numpy(), self.grid.bits, rows * columns).reshape(rows, columns)
        return self.grid.decode(torch.from_numpy(numbers).to(self.step.device), self.step, self.least)


class PackedLinear(nn.Module):
    """A linear layer that unpacks its weight at every call; loading a saved model unpacks it once instead."""

    def __init__(self, linear: nn.Module, grid: Grid) -> None:
        super().__init__()
        assert isinstance(linear.weight, torch.Tensor)
        self.matrix = PackedWeight.of(linear.weight, grid)
        self.register_parameter("bias", linear.bias)  # type: ignore[arg-type]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.linear(x, self.matrix.weight(), self.bias)  # type: ignore[arg-type]


class PackedEmbedding(nn.Module):
    """An embedding that unpacks its weight at every call."""

    def __init__(self, embedding: nn.Module, grid: Grid) -> None:
        super().__init__()
        assert isinstance(embedding.weight, torch.Tensor)
        self.matrix = PackedWeight.of(embedding.weight, grid)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return nn.functional.embedding(ids, self.matrix.weight())
