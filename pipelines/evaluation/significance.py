"""Bootstrap intervals of a score, or of the difference between two scores on the same rows."""

from collections.abc import Callable

import numpy as np

from pipelines.core import seeding

Interval = tuple[float, float]
OfRows = Callable[[np.ndarray], float]  # row numbers, which may repeat -> the score of these rows


def interval(value: OfRows, count: int, samples: int = 1000, seed: int = 1) -> Interval:
    """The 95% percentile interval of `value` over `count` rows drawn with replacement (Efron 1979).

    To compare two models on the same rows, pass the difference of their scores as `value`, so that both get the same
    draws (Koehn 2004).
    """
    low, high = np.quantile(_drawn(value, count, samples, seed), [0.025, 0.975])
    return float(low), float(high)


def lower_bound(value: OfRows, count: int, confidence: float, samples: int = 1000, seed: int = 1) -> float:
    """The one-sided lower percentile bound of `value` at this confidence."""
    return float(np.quantile(_drawn(value, count, samples, seed), 1 - confidence))


def _drawn(value: OfRows, count: int, samples: int, seed: int) -> list[float]:
    generator = seeding.generator(seed, "bootstrap")
    return [value(generator.integers(0, count, count)) for _ in range(samples)]
