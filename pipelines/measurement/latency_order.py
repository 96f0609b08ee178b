"""Decide which of two models is faster: measure rounds in turn until a sign test decides, or a limit is reached."""

import time
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from statistics import median

from pipelines.evaluation import significance
from pipelines.measurement import interleaved

LEAST_ROUNDS, MOST_ROUNDS = 8, 24
MOST_SECONDS = 600.0  # of a comparison: a round of a large model on a busy machine can take minutes
CHANCE = 0.01  # the level of each sign test; over all rounds, 2.3% of comparisons of equal models are decided


@dataclass(frozen=True)
class Order:
    """The speed of the second model compared with the first.

    Attributes:
        ratio: the first model's latency divided by the second's, as the median of the rounds.
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
    """Take rounds one after the other until the two-sided sign test separates the models.

    There is at least one round, at most MOST_ROUNDS, and none begins after MOST_SECONDS.
    """
    measured: list[float] = []
    until = time.monotonic() + MOST_SECONDS
    for ratio in islice(ratios, MOST_ROUNDS):
        measured.append(ratio)
        won = sum(ratio > 1 for ratio in measured)
        if len(measured) >= LEAST_ROUNDS and significance.sign_test(won, len(measured)) <= CHANCE:
            return Order(median(measured), len(measured), True)
        if time.monotonic() > until:
            break
    return Order(median(measured), len(measured), False)
