"""The score of a predictions file against a rows file, joined by id."""

from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.evaluation import metrics


def label_ids(rows: pa.Table, predictions: pa.Table, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Gold and predicted label ids, each (N,), in the rows' order."""
    found = dict(zip(predictions.column("id").to_pylist(), predictions.column("label").to_pylist(), strict=True))
    ids = rows.column("id").to_pylist()
    if missing := [i for i in ids if i not in found]:
        raise InputError(f"{len(missing)} rows have no prediction, such as {missing[0]!r}")
    if predictions.num_rows != len(ids) or len(found) != len(ids):
        raise InputError(f"{predictions.num_rows} predictions for {len(ids)} rows; each row has one")
    gold = rows.column("label").to_pylist()
    if None in gold:
        raise InputError(f"the row {ids[gold.index(None)]!r} has no label; a split without labels cannot be scored")
    number = {label: i for i, label in enumerate(task.labels)}
    for label in {*gold, *found.values()} - set(number):
        raise InputError(f"the label {label!r} is none of {', '.join(task.labels)}")
    return np.array([number[g] for g in gold]), np.array([number[found[i]] for i in ids])


def labelled(rows: pa.Table) -> bool:
    """Whether any row has a label: a leaderboard's test split has none."""
    return "label" in rows.column_names and rows.column("label").null_count < rows.num_rows


def score(rows: pa.Table, predictions: pa.Table, task: Task) -> dict[str, Any]:
    """Every metric, the confusion table (row gold, column predicted), and precision, recall and F1 of each class."""
    gold, predicted = label_ids(rows, predictions, task)
    classes = len(task.labels)
    table = metrics.per_class(gold, predicted, classes)
    every = metrics.METRICS | (metrics.BINARY if classes == 2 else {})
    return {
        "metrics": {name: metric(gold, predicted, classes) for name, metric in every.items()},
        "confusion": metrics.confusion(gold, predicted, classes).tolist(),
        "classes": {
            label: dict(zip(("precision", "recall", "f1"), map(float, line), strict=True))
            for label, line in zip(task.labels, table, strict=True)
        },
    }
