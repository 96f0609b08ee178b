"""The frontier of cost and score: the runs that no other run beats (Pareto 1896, *Cours d'économie politique*)."""

from collections.abc import Sequence
from typing import NamedTuple


class Point(NamedTuple):
    """A run in a plot. `x` is its cost, in any unit; lower is better. A higher `score` is better."""

    name: str
    x: float
    score: float
    is_teacher: bool = False


def beats(first: Point, second: Point) -> bool:
    """Return whether `first` costs no more and scores no less than `second`, and is better in one of the two."""
    return first.x <= second.x and first.score >= second.score and (first.x, first.score) != (second.x, second.score)


def frontier(points: Sequence[Point]) -> list[Point]:
    """The points that no other beats, the cheapest first; equal points stay together."""
    unbeaten: list[Point] = []
    for point in sorted(points, key=lambda p: (p.x, -p.score, p.name, p.is_teacher)):
        if not (unbeaten and beats(unbeaten[-1], point)):
            unbeaten.append(point)
    return unbeaten
