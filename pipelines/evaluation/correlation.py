"""Correlations of predicted numbers with gold ones, each (N,)."""

import numpy as np


def pearson(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Pearson's r; 0 if one side is constant."""
    if not (np.ptp(gold) and np.ptp(predicted)):  # rounding in the mean would leave a spread
        return 0.0
    a, b = (x.astype(np.float64) - x.astype(np.float64).mean() for x in (gold, predicted))
    spread = np.sqrt((a @ a) * (b @ b))
    return float(a @ b / spread) if spread else 0.0


def spearman(gold: np.ndarray, predicted: np.ndarray) -> float:
    """Spearman's correlation: Pearson's r of the ranks; equal numbers share the mean of their ranks."""
    return pearson(_ranks(gold), _ranks(predicted))


def _ranks(values: np.ndarray) -> np.ndarray:
    _, number, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    return ((ends - counts + 1 + ends) / 2)[number]


CORRELATIONS = {"pearson": pearson, "spearman": spearman}


def scores(gold: np.ndarray, predicted: np.ndarray) -> dict[str, float]:
    errors = gold.astype(np.float64) - predicted
    return {
        "pearson": pearson(gold, predicted),
        "spearman": spearman(gold, predicted),
        "mean_squared_error": float((errors**2).mean()),
    }
