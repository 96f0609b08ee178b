"""Rows of unequal length as flat values and offsets, joined and gathered without a loop over rows."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

ROUND = 8  # padded rows have a multiple of so many places


class Ragged(NamedTuple):
    """Row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: np.ndarray  # (n,)
    offsets: np.ndarray  # (rows + 1,) int64

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.offsets)

    def head(self, lengths: np.ndarray) -> "Ragged":
        """The first `lengths[i]` values of each row; no length may exceed its row's."""
        return Ragged(self.values[positions(self.offsets[:-1], lengths)], offsets(lengths))

    def take(self, rows: np.ndarray) -> "Ragged":
        """The rows with these numbers, in this order, as often as they are named."""
        lengths = self.lengths[rows]
        return Ragged(self.values[positions(self.offsets[rows], lengths)], offsets(lengths))


class Spans(NamedTuple):
    """Tokens of texts, and the characters [start, end) of its text that each of them comes from."""

    ids: Ragged
    starts: np.ndarray  # (tokens,) int64
    ends: np.ndarray  # (tokens,) int64


def ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    """Lists of ids as one ragged array of uint32."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return Ragged(np.fromiter(chain.from_iterable(rows), np.uint32, int(lengths.sum())), offsets(lengths))


def offsets(lengths: np.ndarray) -> np.ndarray:
    """[2, 3] gives [0, 2, 5]."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def positions(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Flat positions of ragged pieces: starts [5, 0], lengths [2, 3] give [5, 6, 0, 1, 2]."""
    if not len(lengths):
        return np.zeros(0, np.int64)
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)


def occupied(lengths: np.ndarray, limit: int) -> np.ndarray:
    """Which places of a padded batch are values, (B, T) bool; T is a multiple of `ROUND` that holds the longest row.

    Batches so share their shapes: with a new one in every step, the allocator and oneDNN keep memory for each of them
    (docs/log.md). `limit` is never exceeded.
    """
    width = min(-(-int(lengths.max()) // ROUND) * ROUND, limit)
    return np.arange(width) < lengths[:, None]


def by_length(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Row numbers in batches of like length, longest first; none holds over `budget` values when padded, or one row."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, budget // int(lengths[order[start]]))
        yield order[start : start + size]
        start += size
