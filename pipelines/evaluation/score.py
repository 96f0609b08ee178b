"""The score of a predictions file against a rows file, joined by id."""

from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.errors import InputError
from pipelines.core.schema import TARGETS
from pipelines.core.task import Task
from pipelines.evaluation import correlation, entities, metrics, squad
from pipelines.evaluation.significance import OfRows


def joined(rows: pa.Table, predictions: pa.Table, target: str) -> tuple[list[Any], pa.Table]:
    """What the rows hold in the column `target`, and the predictions in the rows' order."""
    places = {row_id: i for i, row_id in enumerate(predictions.column("id").to_pylist())}
    ids = rows.column("id").to_pylist()
    if missing := [i for i in ids if i not in places]:
        raise InputError(f"{len(missing)} rows have no prediction, such as {missing[0]!r}")
    if predictions.num_rows != len(ids) or len(places) != len(ids):
        raise InputError(f"{predictions.num_rows} predictions for {len(ids)} rows; each row has one")
    gold = rows.column(target).to_pylist()
    if None in gold:
        raise InputError(f"the row {ids[gold.index(None)]!r} has no label; a split without labels cannot be scored")
    return gold, predictions.take([places[i] for i in ids])


def label_ids(rows: pa.Table, predictions: pa.Table, task: Task) -> tuple[np.ndarray, np.ndarray]:
    """Gold and predicted label ids, each (N,), in the rows' order."""
    gold, answers = joined(rows, predictions, "label")
    found = answers.column("label").to_pylist()
    number = {label: i for i, label in enumerate(task.labels)}
    for label in {*gold, *found} - set(number):
        raise InputError(f"the label {label!r} is none of {', '.join(task.labels)}")
    return np.array([number[label] for label in gold]), np.array([number[label] for label in found])


def labelled(rows: pa.Table, task: Task) -> bool:
    """Whether any row has what is to be predicted: a leaderboard's test split has it in none."""
    target = TARGETS[task.kind]
    return target in rows.column_names and rows.column(target).null_count < rows.num_rows


def score(rows: pa.Table, predictions: pa.Table, task: Task) -> dict[str, Any]:
    """{"metrics": {name: number}} and what else there is to say of a task of this kind."""
    if task.kind == "regression":
        gold, answers = joined(rows, predictions, "label")
        return {"metrics": correlation.scores(np.array(gold), answers.column("value").to_numpy())}
    if task.kind == "span":
        return {"metrics": _answers(rows, predictions, task)}
    if task.kind == "tagging":
        gold, answers = joined(rows, predictions, "entities")
        found = entities.scores(gold, answers.column("entities").to_pylist())
        return {"metrics": found.pop(""), "classes": found}
    return _labels(rows, predictions, task)


def metric_of_rows(rows: pa.Table, predictions: pa.Table, task: Task) -> OfRows:
    """The task's own metric as a function of row numbers, for slices and for rows drawn again."""
    name = task.metric
    if task.kind == "regression":
        gold, answers = joined(rows, predictions, "label")
        numbers, values = np.array(gold), answers.column("value").to_numpy()
        return lambda chosen: correlation.scores(numbers[chosen], values[chosen])[name]
    if task.kind == "span":
        found, answers = joined(rows, predictions, "answers")
        gold = [[answer["text"] for answer in row] for row in found]
        each = squad.table(answers.column("answer").to_pylist(), gold, task.language)
        return lambda chosen: float(each[chosen, squad.NAMES.index(name)].mean())
    if task.kind == "tagging":
        gold, answers = joined(rows, predictions, "entities")
        counts = entities.counts(gold, answers.column("entities").to_pylist())
        return lambda chosen: entities.ratios(*counts[chosen].sum(axis=0))[name]
    wanted, said = label_ids(rows, predictions, task)
    metric, classes = (metrics.METRICS | metrics.BINARY)[name], len(task.labels)
    return lambda chosen: metric(wanted[chosen], said[chosen], classes)


def _answers(rows: pa.Table, predictions: pa.Table, task: Task) -> dict[str, float]:
    found, answers = joined(rows, predictions, "answers")
    gold = [[answer["text"] for answer in row] for row in found]
    columns = {name: answers.column(name).to_pylist() for name in ("answer", "best", "no_answer")}
    scores = squad.scores(columns["answer"], gold, task.language)
    if task.unanswerable:
        scores |= squad.best_threshold(columns["best"], columns["no_answer"], gold, task.language)
    return scores


def _labels(rows: pa.Table, predictions: pa.Table, task: Task) -> dict[str, Any]:
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
