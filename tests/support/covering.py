"""Pairwise testing: in CI, enough combinations that every two values occur together; in `make soak`, all of them."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

import pytest

Row = tuple[Any, ...]


def pairwise(*axes: Sequence[Any], where: Callable[..., bool] = lambda *_: True) -> list[Any]:
    """The product of the axes as pytest parameters, in order; combinations without a new pair are marked soak.

    `where` returns whether a combination exists at all.
    """
    rows = [row for row in product(*axes) if where(*row)]
    chosen = covering(rows)
    assert {pair for row in chosen for pair in _pairs(row)} == {pair for row in rows for pair in _pairs(row)}
    return [pytest.param(*row, marks=() if row in chosen else pytest.mark.soak) for row in rows]


def covering(rows: list[Row]) -> set[Row]:
    """A subset of rows that has every pair of values; greedy: each step takes the row with the most new pairs."""
    uncovered, chosen = {pair for row in rows for pair in _pairs(row)}, set()
    while uncovered:
        best = max(rows, key=lambda row: len(uncovered.intersection(_pairs(row))))
        uncovered.difference_update(_pairs(best))
        chosen.add(best)
    return chosen


def _pairs(row: Row) -> Iterator[tuple[tuple[int, Any], tuple[int, Any]]]:
    """Every pair of values in a row, with their positions."""
    return combinations(enumerate(row), 2)
