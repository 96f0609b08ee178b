"""Classification metrics over gold and predicted label ids, each (N,) integers in [0, C)."""

from collections.abc import Callable

import numpy as np

Metric = Callable[[np.ndarray, np.ndarray, int], float]


def confusion(gold: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Counts (C, C): rows are gold labels, columns predicted labels."""
    return np.bincount(gold * classes + predicted, minlength=classes**2).reshape(classes, classes)


def accuracy(gold: np.ndarray, predicted: np.ndarray, classes: int) -> float:
    """Share of rows with the right label."""
    return float((gold == predicted).mean())


def per_class(gold: np.ndarray, predicted: np.ndarray, classes: int) -> np.ndarray:
    """Precision, recall and F1 of each class, (C, 3); 0 if a denominator is 0, as in scikit-learn."""
    table = confusion(gold, predicted, classes).astype(float)
    right, named, there = np.diag(table), table.sum(axis=0), table.sum(axis=1)
    precision = np.divide(right, named, out=np.zeros(classes), where=named > 0)
    recall = np.divide(right, there, out=np.zeros(classes), where=there > 0)
    f1 = np.divide(2 * right, named + there, out=np.zeros(classes), where=named + there > 0)
    return np.stack([precision, recall, f1], axis=1)


def macro_f1(gold: np.ndarray, predicted: np.ndarray, classes: int) -> float:
    """Mean of 2PR / (P + R) over the classes that either side has, as in scikit-learn."""
    table = confusion(gold, predicted, classes).astype(float)
    both = table.sum(axis=0) + table.sum(axis=1)
    return float((2 * np.diag(table)[both > 0] / both[both > 0]).mean())


def matthews(gold: np.ndarray, predicted: np.ndarray, classes: int) -> float:
    """Matthews' correlation for any number of classes, R_K (Gorodkin 2004); 0 if one side has only one class."""
    table = confusion(gold, predicted, classes).astype(float)
    named, there, total = table.sum(axis=0), table.sum(axis=1), table.sum()
    covariance = np.trace(table) * total - named @ there
    spread = np.sqrt(total**2 - named @ named) * np.sqrt(total**2 - there @ there)
    return float(covariance / spread) if spread else 0.0


def f1(gold: np.ndarray, predicted: np.ndarray, classes: int) -> float:
    """F1 of the label with id 1, the positive one of two classes, as in MRPC and QQP."""
    return float(per_class(gold, predicted, classes)[1, 2])


METRICS: dict[str, Metric] = {"accuracy": accuracy, "macro_f1": macro_f1, "matthews": matthews}
BINARY: dict[str, Metric] = {"f1": f1}  # for two classes only
