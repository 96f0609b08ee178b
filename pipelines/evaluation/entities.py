"""Precision, recall and F1 of whole entities, as conlleval counts them (Tjong Kim Sang and De Meulder 2003).

An entity is right when its first character, its last one and its label are.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

Entity = dict[str, Any]  # start, end, label


def scores(gold: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]]) -> dict[str, dict[str, float]]:
    """Of each label, and of all together under the name ""; each row's entities by themselves."""
    right, named, there = (Counter[str]() for _ in range(3))
    for wanted, found in zip(gold, predicted, strict=True):
        a, b = (Counter((e["start"], e["end"], e["label"]) for e in side) for side in (wanted, found))
        for counter, entities in ((right, a & b), (named, b), (there, a)):
            for (_, _, label), count in entities.items():
                counter[label] += count
                counter[""] += count
    return {label: _ratios(right[label], named[label], there[label]) for label in sorted({"", *there, *named})}


def _ratios(right: int, named: int, there: int) -> dict[str, float]:
    return {
        "precision": right / named if named else 0.0,
        "recall": right / there if there else 0.0,
        "f1": 2 * right / (named + there) if named + there else 0.0,
    }
