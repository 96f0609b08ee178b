"""Bootstrap intervals: how far a score, or the difference of two on the same rows, may be chance."""

import numpy as np

from pipelines.core import seeding
from pipelines.evaluation.metrics import Metric

Interval = tuple[float, float]


def interval(
    metric: Metric, gold: np.ndarray, predicted: np.ndarray, classes: int, samples: int = 1000, seed: int = 1
) -> Interval:
    """The 95% percentile interval of a metric over resampled rows (Efron 1979)."""
    draws = _draws(len(gold), samples, seed)
    return _quantiles([metric(gold[rows], predicted[rows], classes) for rows in draws])


def difference(
    metric: Metric, gold: np.ndarray, a: np.ndarray, b: np.ndarray, classes: int, samples: int = 1000, seed: int = 1
) -> Interval:
    """The 95% interval of metric(a) - metric(b), both on the same resampled rows (Koehn 2004)."""
    draws = _draws(len(gold), samples, seed)
    return _quantiles([metric(gold[r], a[r], classes) - metric(gold[r], b[r], classes) for r in draws])


def _draws(rows: int, samples: int, seed: int) -> np.ndarray:
    return seeding.generator(seed, "bootstrap").integers(0, rows, (samples, rows))


def _quantiles(values: list[float]) -> Interval:
    low, high = np.quantile(values, [0.025, 0.975])
    return float(low), float(high)
