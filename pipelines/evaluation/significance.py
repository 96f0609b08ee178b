"""Bootstrap: how far a score, or the difference of two on the same rows, may be chance."""

from collections.abc import Callable

import numpy as np

from pipelines.core import seeding

Interval = tuple[float, float]
OfRows = Callable[[np.ndarray], float]  # a score of the rows with these numbers, which may repeat


def interval(value: OfRows, count: int, samples: int = 1000, seed: int = 1) -> Interval:
    """The 95% percentile interval of `value` over `count` rows drawn again with replacement (Efron 1979).

    For two models on the same rows let `value` be the difference of their scores: each draw is the same for both
    (Koehn 2004).
    """
    low, high = np.quantile(_drawn(value, count, samples, seed), [0.025, 0.975])
    return float(low), float(high)


def lower_bound(value: OfRows, count: int, confidence: float, samples: int = 1000, seed: int = 1) -> float:
    """The lower bound of `value` at this confidence: its one-sided percentile bound."""
    return float(np.quantile(_drawn(value, count, samples, seed), 1 - confidence))


def _drawn(value: OfRows, count: int, samples: int, seed: int) -> list[float]:
    generator = seeding.generator(seed, "bootstrap")
    return [value(generator.integers(0, count, count)) for _ in range(samples)]
