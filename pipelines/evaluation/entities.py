"""Precision, recall and F1 of whole entities, as conlleval counts them (Tjong Kim Sang and De Meulder 2003).

An entity is right if its first character, its last character and its label are right.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

Entity = dict[str, Any]  # start, end, label


def scores(gold: Iterable[Sequence[Entity]], predicted: Iterable[Sequence[Entity]]) -> dict[str, dict[str, float]]:
    """Precision, recall and F1 of each label, and of all labels under the name ""; rows are compared one by one."""
    right, named, there = (Counter[str]() for _ in range(3))
    for row in zip(gold, predicted, strict=True):
        for counter, entities in zip((right, named, there), _compared(*row), strict=True):
            for (_, _, label), count in entities.items():
                counter[label] += count
                counter[""] += count
    return {label: ratios(right[label], named[label], there[label]) for label in sorted({"", *there, *named})}


def counts(gold: Iterable[Sequence[Entity]], predicted: Iterable[Sequence[Entity]]) -> np.ndarray:
    """For each row, the numbers of right, predicted and gold entities, in the order of `ratios`: (N, 3)."""
    rows = zip(gold, predicted, strict=True)
    return np.array([[entities.total() for entities in _compared(*row)] for row in rows])


def _compared(gold: Sequence[Entity], predicted: Sequence[Entity]) -> tuple[Counter[tuple[int, int, str]], ...]:
    """The right, predicted and gold entities of one row, with their counts."""
    there, named = (Counter((e["start"], e["end"], e["label"]) for e in side) for side in (gold, predicted))
    return there & named, named, there


def ratios(right: int, named: int, there: int) -> dict[str, float]:
    """Precision, recall and F1 from the numbers of right, predicted and gold entities; 0 if a denominator is 0."""
    return {
        "precision": right / named if named else 0.0,
        "recall": right / there if there else 0.0,
        "f1": 2 * right / (named + there) if named + there else 0.0,
    }
