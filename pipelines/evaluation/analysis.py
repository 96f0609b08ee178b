"""Where a model is right and how sure it may be: an interval for its score, scores of slices, calibration."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.errors import UsageError
from pipelines.core.schema import INPUTS
from pipelines.core.task import Task
from pipelines.evaluation import significance
from pipelines.evaluation.score import joined, metric_of_rows

BINS = 15  # of confidence, as in Guo et al. 2017


def analysis(rows: pa.Table, predictions: pa.Table, task: Task, patterns: Mapping[str, str]) -> dict[str, Any]:
    """{"interval": [low, high], "slices": [...]}, and "calibration" where there are probabilities of labels.

    Args:
        rows: all of them labelled; predictions: of the same rows.
        patterns: names of further slices to regular expressions that a text of the row must hold.
    """
    value = metric_of_rows(rows, predictions, task)
    found: dict[str, Any] = {"interval": list(significance.interval(value, rows.num_rows))}
    found["slices"] = [
        {"slice": name, "rows": len(chosen), "score": value(chosen)}
        for name, chosen in (_slices(rows, task) | _matching(rows, task, patterns)).items()
        if len(chosen)
    ]
    if task.kind in ("single", "pair", "choice"):
        gold, answers = joined(rows, predictions, "label")
        right = np.array(gold) == np.array(answers.column("label").to_pylist())
        found["calibration"] = calibration(answers.column("score").to_numpy(), right)
    return found


def calibration(confidence: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Expected calibration error (Guo et al. 2017, eq. 3), and the bins that it is the mean of.

    Args:
        confidence: probability of the label that was said, (N,) in [0, 1]; right: whether it was right, (N,).
    """
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)  # each open below and closed above
    table = [
        {
            "confidence": float(confidence[inside].mean()),
            "accuracy": float(right[inside].mean()),
            "rows": int(inside.sum()),
        }
        for inside in (bins == i for i in range(BINS))
        if inside.any()
    ]
    error = sum(line["rows"] * abs(line["confidence"] - line["accuracy"]) for line in table) / len(right)
    return {"expected_error": float(error), "bins": table}


def _texts(rows: pa.Table, task: Task) -> list[str]:
    columns = [rows.column(name).to_pylist() for name in INPUTS[task.kind]]
    return ["\n".join("\n".join(x) if isinstance(x, list) else x for x in row) for row in zip(*columns, strict=True)]


def _slices(rows: pa.Table, task: Task) -> dict[str, np.ndarray]:
    """Every kind's own: quarters by length, and what the rows of a kind differ in."""
    lengths = np.array([len(text) for text in _texts(rows, task)])
    found = _quarters(lengths, "characters")
    if task.kind == "span" and task.unanswerable:
        answered = np.array([bool(a) for a in rows.column("answers").to_pylist()])
        found |= {"an answer": np.flatnonzero(answered), "no answer": np.flatnonzero(~answered)}
    if task.kind == "tagging":
        counts = np.array([len(e) for e in rows.column("entities").to_pylist()])
        for name, chosen in (("no entity", counts == 0), ("1 entity", counts == 1), ("2 or more", counts > 1)):
            found[name] = np.flatnonzero(chosen)
    return found


def _quarters(values: np.ndarray, unit: str) -> dict[str, np.ndarray]:
    """Rows of like value in at most four groups; equal values stay together."""
    edges = sorted({int(edge) for edge in np.quantile(values, [0.25, 0.5, 0.75], method="lower")} | {int(values.max())})
    group = np.searchsorted(edges, values)
    every = (np.flatnonzero(group == i) for i in range(len(edges)))
    return {f"{values[rows].min()} to {values[rows].max()} {unit}": rows for rows in every}


def _matching(rows: pa.Table, task: Task, patterns: Mapping[str, str]) -> dict[str, np.ndarray]:
    texts, found = _texts(rows, task), {}
    for name, pattern in patterns.items():
        try:
            search = re.compile(pattern).search
        except re.error as error:
            raise UsageError(f"params.yaml: slices.{name}: {pattern!r} is no regular expression: {error}") from None
        found[name] = np.flatnonzero([bool(search(text)) for text in texts])
        if not len(found[name]):
            raise UsageError(f"params.yaml: slices.{name}: no row holds {pattern!r}")
    return found
