"""Combinations of several axes: in CI enough that any two values meet, in `make soak` the whole product."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations, product
from typing import Any

import pytest

Row = tuple[Any, ...]


def pairwise(*axes: Sequence[Any], where: Callable[..., bool] = lambda *_: True) -> list[Any]:
    """The whole product as parameters of pytest, in its order; what shows no new pair of values is marked soak.

    `where` tells which combinations there are at all.
    """
    rows = [row for row in product(*axes) if where(*row)]
    chosen = covering(rows)
    assert {pair for row in chosen for pair in _pairs(row)} == {pair for row in rows for pair in _pairs(row)}
    return [pytest.param(*row, marks=() if row in chosen else pytest.mark.soak) for row in rows]


def covering(rows: list[Row]) -> set[Row]:
    """Rows among these in which every two values meet that meet in any: each time the one with most new pairs."""
    left, chosen = {pair for row in rows for pair in _pairs(row)}, set()
    while left:
        best = max(rows, key=lambda row: len(left.intersection(_pairs(row))))
        left.difference_update(_pairs(best))
        chosen.add(best)
    return chosen


def _pairs(row: Row) -> Iterator[tuple[tuple[int, Any], tuple[int, Any]]]:
    """Each two values of a row, with their places."""
    return combinations(enumerate(row), 2)
