"""The score of each row alone: how right an answer is, to name the rows that one run gains and another loses."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.task import Task
from pipelines.evaluation import answer_scores, entities
from pipelines.evaluation.prediction_scores import joined


def of(rows: pa.Table, predictions: pa.Table, task: Task) -> np.ndarray:
    """The score of each row, (N,), in the rows' order; higher is better.

    Labels: 1 if right, else 0. Answers: F1 of the best gold answer. Entities: F1 of the row, 1 where there is none and
    none is named. Numbers: minus the absolute error. Raises InputError if rows and predictions do not match.
    """
    if task.kind == "regression":
        gold, answers = joined(rows, predictions, "label")
        return -np.abs(gold.to_numpy() - answers.column("value").to_numpy())
    if task.kind == "span":
        gold, answers = joined(rows, predictions, "answers")
        texts = ([answer["text"] for answer in row] for row in gold.to_pylist())
        table = answer_scores.table(answers.column("answer").to_pylist(), texts, task.compared_by)
        return np.asarray(table[:, answer_scores.NAMES.index("f1")], np.float64)
    if task.kind == "tagging":
        gold, answers = joined(rows, predictions, "entities")
        right, named, there = entities.counts(gold.to_pylist(), answers.column("entities").to_pylist()).T
        return np.where(named + there == 0, 1.0, 2 * right / np.maximum(named + there, 1))
    gold, answers = joined(rows, predictions, "label")
    return pc.equal(gold, answers.column("label")).to_numpy().astype(np.float64)
