"""Rows of unequal length as flat values and offsets, joined and gathered without a loop over rows."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

ROUND = 8  # the length of padded rows is a multiple of this


class Ragged(NamedTuple):
    """Row i is `values[offsets[i]:offsets[i + 1]]`."""

    values: np.ndarray  # (n,)
    offsets: np.ndarray  # (rows + 1,) int64

    @property
    def lengths(self) -> np.ndarray:
        return self.offsets[1:] - self.offsets[:-1]  # np.diff takes ten times as long for a few rows

    def head(self, lengths: np.ndarray) -> "Ragged":
        """The first `lengths[i]` values of each row; no length may exceed its row's."""
        if lengths.sum() == len(self.values):  # nothing is cut, as of most short texts
            return self
        return Ragged(self.values[positions(self.offsets[:-1], lengths)], offsets(lengths))

    def take(self, rows: np.ndarray) -> "Ragged":
        """The rows with these numbers, in this order; a number may repeat."""
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts
        return Ragged(self.values[positions(starts, lengths)], offsets(lengths))


class Spans(NamedTuple):
    """Tokens of texts; each token comes from the characters [start, end) of its text."""

    ids: Ragged
    starts: np.ndarray  # (tokens,) int64
    ends: np.ndarray  # (tokens,) int64


def ragged(rows: Sequence[Sequence[int]]) -> Ragged:
    """Lists of ids as one ragged array of uint32."""
    lengths = np.fromiter(map(len, rows), np.int64, len(rows))
    return Ragged(np.fromiter(chain.from_iterable(rows), np.uint32, int(lengths.sum())), offsets(lengths))


def offsets(lengths: np.ndarray) -> np.ndarray:
    """The offsets of rows with these lengths: [2, 3] gives [0, 2, 5]."""
    starts = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=starts[1:])
    return starts


def positions(starts: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Flat positions of ragged pieces: starts [5, 0], lengths [2, 3] give [5, 6, 0, 1, 2]."""
    if not len(lengths):
        return np.zeros(0, np.int64)
    ends = np.cumsum(lengths)
    return np.arange(ends[-1]) + np.repeat(starts - (ends - lengths), lengths)


def padded(rows: Ragged, chosen: np.ndarray, fill: int, limit: int) -> tuple[np.ndarray, np.ndarray]:
    """The chosen rows padded with `fill`, (B, T) int64, and a mask that is True at values, (B, T) bool.

    T is the length of the longest row, rounded up to a multiple of `ROUND`, and at most `limit`. Rounding keeps the
    number of shapes small: the allocator and oneDNN keep memory for every new shape
    (docs/log/2026-11-training.md).
    """
    starts = rows.offsets[chosen]
    lengths = rows.offsets[chosen + 1] - starts
    places = np.arange(min(_rounded(max(lengths.tolist())), limit))  # faster than NumPy's max for few rows
    inside = places < lengths[:, None]
    # a short row is followed by values of the next row
    tokens = rows.values.take(starts[:, None] + places, mode="clip")
    shown = tokens.astype(np.int64)
    np.putmask(shown, ~inside, fill)  # faster than np.where, which casts too
    return shown, inside


def model_inputs(
    ids: Ragged, chosen: np.ndarray, first_length: np.ndarray | None, pad_id: int, limit: int
) -> dict[str, np.ndarray]:
    """The chosen rows as input_ids, attention_mask and, if they have two segments, token_type_ids: (B, T) int64.

    `first_length` (rows,) is the number of tokens of type 0 in each row; None where there is one segment.
    """
    shown, inside = padded(ids, chosen, pad_id, limit)
    inputs = {"input_ids": shown, "attention_mask": inside.astype(np.int64)}
    if first_length is not None:
        second = np.arange(inside.shape[1]) >= first_length[chosen, None]
        inputs["token_type_ids"] = (inside & second).astype(np.int64)
    return inputs


def by_length(lengths: np.ndarray, budget: int) -> Iterator[np.ndarray]:
    """Row numbers in batches of similar length, longest first; each has at most `budget` padded places, or one row."""
    order = np.argsort(-lengths, kind="stable")
    start = 0
    while start < len(order):
        size = max(1, budget // _rounded(lengths[order[start]]))
        yield order[start : start + size]
        start += size


def _rounded(length: int) -> int:
    return -(-int(length) // ROUND) * ROUND
