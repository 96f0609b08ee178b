"""Intervals by bootstrap, of a score or of a difference of two on the same rows; of a share; and the sign test."""

import math
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


def sign_test(won: int, count: int) -> float:
    """The two-sided p-value of the sign test: how often equal sides share `count` cases at least as unevenly.

    For two models on the same rows, the cases are those on which their scores differ (McNemar 1947, exact).
    """
    return min(1.0, 2 * sum(math.comb(count, k) for k in range(max(won, count - won), count + 1)) / 2**count)


def share_interval(share: float, size: float, z: float = 1.959964) -> Interval:
    """The score interval of a share among `size` independent draws (Wilson 1927, eq. 5); 95% by default.

    It is wider than a point for a share of 0 or 1 too. `size` may be an effective size (`effective_size`).
    """
    centre = (share + z * z / (2 * size)) / (1 + z * z / size)
    half = z / (1 + z * z / size) * math.sqrt(share * (1 - share) / size + z * z / (4 * size * size))
    return max(0.0, min(share, centre - half)), min(1.0, max(share, centre + half))  # rounding may pass the share


def effective_size(counts: np.ndarray) -> float:
    """The number of independent draws that draws in clusters of these sizes, (N,), are worth (Kish 1965).

    A row that was sent a hundred times is no hundred rows.
    """
    return float(counts.sum()) ** 2 / float((counts.astype(np.float64) ** 2).sum())
