"""The order of two models by latency: rounds in turn until it is decided, or rounds or time are spent."""

import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from math import comb
from pathlib import Path
from statistics import median

from pipelines.measurement import interleaved

LEAST_ROUNDS, MOST_ROUNDS = 8, 24
MOST_SECONDS = 600.0  # of a comparison: rounds of a large model on a busy machine take minutes
CHANCE = 0.01  # of a sign test in one look; over all looks two equal models are told apart in 2.3 of 100 comparisons


@dataclass(frozen=True)
class Order:
    """The speed of the second of two models, compared with the first.

    Attributes:
        ratio: how many times as fast the second model is, as the median of the rounds.
        decided: whether one of the models was faster in more rounds than chance explains.
    """

    ratio: float
    rounds: int
    decided: bool


def compare(first: Path, second: Path, split_file: Path, threads: int = 1) -> Order:
    """Measure two models in turn on rows of `split_file`. Raises InputError if one cannot be opened, or dies."""
    with (
        interleaved.opened(first, split_file, threads, starts=1, seconds=1) as reference,
        closing(reference.ratios(second)) as ratios,  # type: ignore[type-var]
    ):
        return decide(ratios)


def decide(ratios: Iterable[float]) -> Order:
    """Look at one round after the other until the sign test (two-sided) tells the models apart.

    The first round is always looked at; none begins after MOST_SECONDS.
    """
    seen: list[float] = []
    until = time.monotonic() + MOST_SECONDS
    for ratio in islice(ratios, MOST_ROUNDS):
        seen.append(ratio)
        if len(seen) >= LEAST_ROUNDS and _by_chance(seen) <= CHANCE:
            return Order(median(seen), len(seen), True)
        if time.monotonic() > until:
            break
    return Order(median(seen), len(seen), False)


def _by_chance(ratios: list[float]) -> float:
    """The probability that two equal models share the rounds at least as unevenly."""
    count, won = len(ratios), sum(ratio > 1 for ratio in ratios)
    return min(1.0, 2 * sum(comb(count, k) for k in range(max(won, count - won), count + 1)) / 2**count)
