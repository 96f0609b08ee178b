"""Drift: compare the rows of a window, and the model's answers to them, with the profile of the model.

A profile and a window are tables with the columns of `SCHEMA` and one row per row of data. Each statistic is a distance
between the two tables. It has drifted if it is above its limit and above the value that chance gives: the 99th
percentile of the distance between random splits of all rows (a permutation test: Good 2005, chapter 3). A split never
divides a row, since the words of one text are not independent.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse
from scipy.spatial.distance import jensenshannon

from pipelines.core import seeding

SCHEMA = pa.schema(
    [
        pa.field("pieces", pa.list_(pa.uint32())),  # ids of the row's texts
        pa.field("unknown_pieces", pa.int64()),  # how many of the pieces are the unknown token
        pa.field("words", pa.int64()),  # number of words, by MeCab; null if the tokenizer has no dictionary
        pa.field("unknown_words", pa.int64()),  # how many of the words are not in the dictionary
        pa.field("label", pa.string()),  # the model's answer, if it is a label
        pa.field("value", pa.float64()),  # the model's answer, if it is a number
        pa.field("confidence", pa.float64()),
    ]
)
SPLITS, PERCENTILE = 200, 99
BINS = 20
Counts: TypeAlias = np.ndarray | sparse.csr_array  # (N, C): N rows, C categories
Distance = Callable[[np.ndarray, np.ndarray], np.ndarray]  # counts (S, C) and counts (S, C) -> (S,)


@dataclass(frozen=True)
class Shift:
    """The distance of a window from the profile in one statistic."""

    statistic: str
    value: float
    by_chance: float  # the 99th percentile over random splits
    limit: float

    @property
    def drifted(self) -> bool:
        return self.value > max(self.limit, self.by_chance)


def shifts(profile: pa.Table, window: pa.Table, limits: dict[str, float], seed: int = 1) -> list[Shift]:
    """The shift of each statistic in `limits`. Rows without a value are left out; both tables must have other rows."""
    measured = []
    for name, limit in limits.items():
        column, counted, distance = STATISTICS[name]
        known, new = (table.filter(pc.is_valid(table.column(column))) for table in (profile, window))
        if not (known.num_rows and new.num_rows):
            continue
        counts = counted(pa.concat_tables([known, new]))
        here = np.arange(counts.shape[0]) >= known.num_rows
        generator = seeding.generator(seed, "drift", name)
        splits = np.stack([here, *(generator.permutation(here) for _ in range(SPLITS))])
        inside = np.asarray((counts.T @ splits.T.astype(np.float64)).T)  # (1 + SPLITS, C)
        value, *chance = distance(counts.sum(axis=0).reshape(1, -1) - inside, inside)
        measured.append(Shift(name, float(value), float(np.percentile(chance, PERCENTILE)), limit))
    return measured


def alarm(drifted: list[bool], least: int, of: int) -> bool:
    """Return whether at least `least` of the last `of` windows drifted, the newest (the last) among them."""
    return bool(drifted) and drifted[-1] and sum(drifted[-of:]) >= least


def difference_of_shares(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The absolute difference between the shares of the first of two categories: (S, 2) and (S, 2) -> (S,)."""
    return np.abs(_shares(first)[:, 0] - _shares(second)[:, 0])


def divergence(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The Jensen-Shannon divergence in bits, from 0 (the same) to 1 (nothing in common) (Lin 1991, eq. 4.1)."""
    return np.asarray(jensenshannon(first, second, base=2, axis=1)) ** 2


def largest_gap(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The largest difference between cumulative shares of ordered categories (Kolmogorov-Smirnov distance)."""
    return np.abs((_shares(first) - _shares(second)).cumsum(axis=1)).max(axis=1)


def _shares(counts: np.ndarray) -> np.ndarray:
    return counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)


def _unknown(table: pa.Table, unknown: str, of: np.ndarray) -> np.ndarray:
    """The numbers of unknown and of known pieces or words in each row: (N, 2)."""
    counts = table.column(unknown).to_numpy()
    return np.stack([counts, of - counts], axis=1).astype(np.float64)


def _pieces(table: pa.Table) -> np.ndarray:
    """The number of pieces in each row."""
    return table.column("pieces").combine_chunks().value_lengths().to_numpy()


def _vocabulary(table: pa.Table) -> sparse.csr_array:
    """The number of times each row has each piece that occurs in any row: (N, C)."""
    pieces = np.asarray(table.column("pieces").combine_chunks().flatten())
    distinct, column = np.unique(pieces, return_inverse=True)
    row = np.repeat(np.arange(table.num_rows), _pieces(table))
    shape = (table.num_rows, max(1, len(distinct)))
    return sparse.csr_array((np.ones(len(pieces)), (row, column)), shape=shape)


def _one_of(categories: np.ndarray) -> np.ndarray:
    """A one in the column of each row's category: (N, C)."""
    distinct, column = np.unique(categories, return_inverse=True)
    return np.eye(len(distinct))[column]


def _quantile(values: np.ndarray) -> np.ndarray:
    """A one in the column of each row's quantile among all rows: (N, C) with C at most BINS."""
    edges = np.unique(np.quantile(values, np.linspace(0, 1, BINS + 1)[1:-1]))
    return _one_of(np.searchsorted(edges, values, side="right"))


# name -> the required column, the counts of each row, and the distance between the sums of two groups of rows
STATISTICS: dict[str, tuple[str, Callable[[pa.Table], Counts], Distance]] = {
    "unknown_pieces": ("pieces", lambda t: _unknown(t, "unknown_pieces", _pieces(t)), difference_of_shares),
    "unknown_words": (
        "words",
        lambda t: _unknown(t, "unknown_words", t.column("words").to_numpy()),
        difference_of_shares,
    ),
    "length": ("pieces", lambda t: _quantile(_pieces(t)), largest_gap),
    "vocabulary": ("pieces", _vocabulary, divergence),
    "labels": ("label", lambda t: _one_of(np.asarray(t.column("label").to_pylist())), divergence),
    "values": ("value", lambda t: _quantile(t.column("value").to_numpy()), largest_gap),
    "confidence": ("confidence", lambda t: _quantile(t.column("confidence").to_numpy()), largest_gap),
}
