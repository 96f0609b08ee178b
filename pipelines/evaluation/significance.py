"""Bootstrap intervals: how far a score, or the difference of two on the same rows, may be chance."""

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
    generator = seeding.generator(seed, "bootstrap")
    values = [value(generator.integers(0, count, count)) for _ in range(samples)]
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
