"""The score of a predictions file against a rows file, joined by id."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.errors import InputError
from pipelines.core.schema import TARGETS
from pipelines.core.task import Task
from pipelines.evaluation import answer_scores, correlation, entities, metrics
from pipelines.evaluation.significance import OfRows


def joined(rows: pa.Table, predictions: pa.Table, target: str) -> tuple[pa.ChunkedArray, pa.Table]:
    """The rows' column `target`, and the predictions in the rows' order. Raises InputError if they do not match."""
    ids, theirs = rows.column("id"), predictions.column("id")
    places = pc.index_in(ids, value_set=theirs)
    if missing := places.null_count:
        raise InputError(f"{missing} rows have no prediction, such as {_first(ids, places.is_null())!r}")
    if predictions.num_rows != len(ids) or len(theirs.unique()) != len(ids):
        raise InputError(f"{predictions.num_rows} predictions for {len(ids)} rows; each row needs exactly one")
    gold = rows.column(target)
    if gold.null_count:
        row = _first(ids, gold.is_null())
        raise InputError(f"the row {row!r} has no label; a split without labels cannot be scored")
    return gold, predictions.take(places)


def _first(values: pa.ChunkedArray, chosen: pa.ChunkedArray) -> Any:
    return values.filter(chosen)[0].as_py()


def label_ids(rows: pa.Table, predictions: pa.Table, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Gold and predicted label ids, each (N,), in the rows' order."""
    gold, answers = joined(rows, predictions, "label")
    labels = pa.array(task.labels, pa.string())
    encoded = []
    for column in (gold, answers.column("label")):
        ids = pc.index_in(column, value_set=labels)
        if ids.null_count:
            label = _first(column, ids.is_null())
            raise InputError(f"the label {label!r} is not one of {', '.join(task.labels)}")
        encoded.append(ids.to_numpy().astype(np.int64))
    return encoded[0], encoded[1]


def labelled(rows: pa.Table, task: Task) -> bool:
    """Return whether any row has a target; in a leaderboard's test split none has."""
    target = TARGETS[task.kind]
    return target in rows.column_names and rows.column(target).null_count < rows.num_rows


def score(rows: pa.Table, predictions: pa.Table, task: Task) -> dict[str, Any]:
    """{"metrics": {name: number}} and further results, such as a confusion table, depending on the kind."""
    if task.kind == "regression":
        gold, answers = joined(rows, predictions, "label")
        return {"metrics": correlation.scores(gold.to_numpy(), answers.column("value").to_numpy())}
    if task.kind == "span":
        return {"normalization": task.compared_by, "metrics": _answers(rows, predictions, task)}
    if task.kind == "tagging":
        gold, answers = joined(rows, predictions, "entities")
        by_class = entities.scores(_each(gold), _each(answers.column("entities")))
        return {"metrics": by_class.pop(""), "classes": by_class}
    return _labels(rows, predictions, task)


def metric_of_rows(rows: pa.Table, predictions: pa.Table, task: Task) -> OfRows:
    """The task's metric as a function of row numbers, for slices and for bootstrap samples."""
    name = task.metric
    if task.kind == "regression":
        gold, answers = joined(rows, predictions, "label")
        numbers, values = gold.to_numpy(), answers.column("value").to_numpy()
        correlate = correlation.CORRELATIONS[name]
        return lambda chosen: correlate(numbers[chosen], values[chosen])
    if task.kind == "span":
        gold, answers = joined(rows, predictions, "answers")
        row_scores = answer_scores.table(_each(answers.column("answer")), _texts(gold), task.compared_by)
        return lambda chosen: float(row_scores[chosen, answer_scores.NAMES.index(name)].mean())
    if task.kind == "tagging":
        gold, answers = joined(rows, predictions, "entities")
        counts = entities.counts(_each(gold), _each(answers.column("entities")))
        if counts[:, 2].any():
            return lambda chosen: _of_entities(counts[chosen], name)
        return lambda chosen: entities.ratios(*map(int, counts[chosen].sum(axis=0)))[name]
    gold_ids, predicted_ids = label_ids(rows, predictions, task)
    metric, classes = (metrics.METRICS | metrics.BINARY)[name], len(task.labels)
    return lambda chosen: metric(gold_ids[chosen], predicted_ids[chosen], classes)


def best_of_rows(rows: pa.Table, task: Task) -> OfRows:
    """The metric of right answers as a function of row numbers.

    It is 0 where no answer could score more: Matthews' correlation of rows with one label, F1 of rows without the
    positive label, a correlation with equal numbers.
    """
    if task.kind == "regression":
        numbers, correlate = rows.column("label").to_numpy(), correlation.CORRELATIONS[task.metric]
        return lambda chosen: correlate(numbers[chosen], numbers[chosen])
    if task.kind in ("span", "tagging"):
        return lambda chosen: 1.0
    gold = pc.index_in(rows.column("label"), value_set=pa.array(task.labels, pa.string())).to_numpy().astype(np.int64)
    metric, classes = (metrics.METRICS | metrics.BINARY)[task.metric], len(task.labels)
    return lambda chosen: metric(gold[chosen], gold[chosen], classes)


def _of_entities(counts: np.ndarray, name: str) -> float:
    """The ratio `name` of some rows' counts, (N, 3); where none has a gold entity, the share without a predicted one.

    A perfect model would have a ratio of 0 there.
    """
    right, named, there = map(int, counts.sum(axis=0))
    return entities.ratios(right, named, there)[name] if there else float((counts[:, 1] == 0).mean())


def _answers(rows: pa.Table, predictions: pa.Table, task: Task) -> dict[str, float]:
    gold, answers = joined(rows, predictions, "answers")
    scores = answer_scores.scores(_each(answers.column("answer")), _texts(gold), task.compared_by)
    if task.unanswerable:
        no_answer = answers.column("no_answer").to_numpy()
        scores |= answer_scores.best_threshold(_each(answers.column("best")), no_answer, _texts(gold), task.compared_by)
    return scores


def _each(column: pa.ChunkedArray) -> Iterator[Any]:
    """The values one by one; as Python objects, all of them would take many times the column's memory."""
    return (value.as_py() for value in column)


def _texts(answers: pa.ChunkedArray) -> Iterator[list[str]]:
    """The texts of each row's gold answers."""
    return ([answer["text"] for answer in row] for row in _each(answers))


def _labels(rows: pa.Table, predictions: pa.Table, task: Task) -> dict[str, Any]:
    """Every metric, the confusion table (rows gold, columns predicted), and precision, recall and F1 of each class."""
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
