"""Analysis of predictions: the interval of the score, the scores of slices, and calibration."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.errors import UsageError
from pipelines.core.schema import INPUTS
from pipelines.core.task import Task
from pipelines.evaluation import significance
from pipelines.evaluation.prediction_scores import best_of_rows, joined, metric_of_rows
from pipelines.evaluation.significance import OfRows

BINS = 15  # of confidence, as in Guo et al. 2017


def analysis(
    rows: pa.Table,
    predictions: pa.Table,
    task: Task,
    patterns: Mapping[str, str],
    inputs: Iterable[pa.RecordBatch],
) -> dict[str, Any]:
    """{"interval": [low, high], "slices": [...]}, and "calibration" where there are probabilities of labels.

    Args:
        rows: ids and targets, all of them labelled; predictions: of the same rows.
        patterns: names of further slices -> regular expressions; a slice is the rows with a text that matches.
        inputs: the texts of all rows, in the same order.
    """
    value = metric_of_rows(rows, predictions, task)
    report: dict[str, Any] = {"interval": list(significance.interval(value, rows.num_rows))}
    report["slices"] = slices(value, rows, task, patterns, inputs)
    if task.kind in ("single", "pair", "choice"):
        gold, answers = joined(rows, predictions, "label")
        right = pc.equal(gold, answers.column("label")).to_numpy()
        report["calibration"] = calibration(answers.column("score").to_numpy(), right)
    return report


def slices(
    value: OfRows, rows: pa.Table, task: Task, patterns: Mapping[str, str], inputs: Iterable[pa.RecordBatch]
) -> list[dict[str, Any]]:
    """{"slice": name, "rows": count, "score": number} for each slice of the kind and each slice from `patterns`.

    Those from `patterns` have their "pattern" too. The score is None where right answers would have 0, so that it says
    nothing about the model.
    """
    best = best_of_rows(rows, task)
    return [
        {"slice": name, "rows": len(chosen), "score": value(chosen) if best(chosen) > 0 else None}
        | ({"pattern": patterns[name]} if name in patterns else {})
        for name, chosen in rows_of_slices(rows, task, patterns, inputs).items()
    ]


def rows_of_slices(
    rows: pa.Table, task: Task, patterns: Mapping[str, str], inputs: Iterable[pa.RecordBatch]
) -> dict[str, np.ndarray]:
    """The numbers of the rows in each slice of the kind and each slice from `patterns`; none is empty."""
    lengths, matching = _lengths_and_matches(_texts(inputs, task), patterns)
    return {name: chosen for name, chosen in (_slices(rows, lengths, task) | matching).items() if len(chosen)}


def calibration(confidence: np.ndarray, right: np.ndarray) -> dict[str, Any]:
    """Expected calibration error (Guo et al. 2017, eq. 3), and the bins from which it is computed.

    Args:
        confidence: probability of the predicted label, (N,) in [0, 1]; right: whether the label is right, (N,).
    """
    bins = np.clip(np.ceil(confidence * BINS).astype(int) - 1, 0, BINS - 1)  # bins are (low, high]
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


def _texts(inputs: Iterable[pa.RecordBatch], task: Task) -> Iterator[str]:
    """The inputs of each row as one text."""
    for part in inputs:
        columns = [part.column(name).to_pylist() for name in INPUTS[task.kind]]
        for row in zip(*columns, strict=True):
            yield "\n".join("\n".join(x) if isinstance(x, list) else x for x in row)


def _lengths_and_matches(texts: Iterable[str], patterns: Mapping[str, str]) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """The length of each text, (N,), and the numbers of the rows that match each pattern.

    Raises UsageError if no row matches a pattern.
    """
    searches = [_search(name, pattern) for name, pattern in patterns.items()]
    rows = ([len(text), *(search(text) is not None for search in searches)] for text in texts)
    table = np.fromiter(rows, np.dtype((np.int64, (1 + len(searches),))))
    matches = {name: np.flatnonzero(column) for name, column in zip(patterns, table.T[1:], strict=True)}
    for name, chosen in matches.items():
        if not len(chosen):
            raise UsageError(f"params.yaml: slices.{name}: no row matches {patterns[name]!r}")
    return table[:, 0], matches


def _search(name: str, pattern: str) -> Callable[[str], re.Match[str] | None]:
    try:
        return re.compile(pattern).search
    except re.error as error:
        raise UsageError(f"params.yaml: slices.{name}: {pattern!r} is not a regular expression: {error}") from None


def _slices(rows: pa.Table, lengths: np.ndarray, task: Task) -> dict[str, np.ndarray]:
    """The slices of the kind: quarters by length, and groups by the number of answers or entities."""
    groups = _quarters(lengths, "characters")
    if task.kind == "span" and task.unanswerable:
        answered = pc.list_value_length(rows.column("answers")).to_numpy() > 0
        groups |= {"an answer": np.flatnonzero(answered), "no answer": np.flatnonzero(~answered)}
    if task.kind == "tagging":
        counts = pc.list_value_length(rows.column("entities")).to_numpy()
        for name, chosen in (("no entity", counts == 0), ("1 entity", counts == 1), ("2 or more", counts > 1)):
            groups[name] = np.flatnonzero(chosen)
    return groups


def _quarters(values: np.ndarray, unit: str) -> dict[str, np.ndarray]:
    """Rows in at most four groups by value; equal values are in one group."""
    edges = sorted({int(edge) for edge in np.quantile(values, [0.25, 0.5, 0.75], method="lower")} | {int(values.max())})
    group = np.searchsorted(edges, values)
    every = (np.flatnonzero(group == i) for i in range(len(edges)))
    return {f"{values[rows].min()} to {values[rows].max()} {unit}": rows for rows in every}
