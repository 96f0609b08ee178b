"""The rows that a run misreads: which labels it takes for which, and the worst rows with their texts."""

from collections import Counter
from typing import Any

import numpy as np

from pipelines.core import paths, provenance
from pipelines.core.errors import InputError, UsageError
from pipelines.evaluation import evaluated_run, row_scores
from pipelines.evaluation.evaluated_run import Run
from pipelines.evaluation.prediction_scores import labelled
from pipelines.evaluation.split import Split

RIGHT = {"regression": 0.0}  # kind -> the score of a row that is answered right (row_scores); 1 of all others


def misread(name: str, shown: int = 10) -> dict[str, Any]:
    """The rows of a run whose answers are not right, as JSON.

    {"run", "task", "split", "metric", "score", "rows", "misread", "confusions", "listed"}: `confusions` has the number
    of rows for each pair of a gold label and another one; `listed` the rows with the lowest scores, and of equal ones
    those that the run was surest of.

    Args:
        shown: the most rows that are listed with their texts.

    Raises:
        UsageError: the run was not evaluated, or its rows have no labels.
        InputError: the rows have changed since.
    """
    metrics = evaluated_run.record(name)
    split = evaluated_run.split(metrics)
    rows, task = paths.rows(metrics["task"]), split.task
    if evaluated_run.digest(name, metrics["task"]) != provenance.digest(rows):
        raise InputError(f"{rows} changed after {name} was evaluated; `bertline run` brings it up to date")
    if not labelled(targets := split.targets(), task):
        raise UsageError(f"{name}: {metrics['task']} {metrics['split']} has no labels to compare its answers with")
    run = Run.of(name, metrics, split)
    scores = row_scores.of(targets, run.answers, task)
    wrong = np.flatnonzero(scores < RIGHT.get(task.kind, 1.0))
    return {
        "run": name,
        "task": metrics["task"],
        "split": metrics["split"],
        "metric": task.metric,
        "score": metrics["metrics"].get(task.metric),
        "rows": len(scores),
        "misread": len(wrong),
        "confusions": _confusions(run, split, wrong) if task.kind in ("single", "pair") else [],
        "listed": _listed(run, split, wrong, scores, shown),
    }


def _confusions(run: Run, split: Split, wrong: np.ndarray) -> list[dict[str, Any]]:
    """{"gold", "answer", "rows"} for each pair of labels of these rows, the most frequent first."""
    gold, says = split.targets().column("label").to_pylist(), run.says(split)
    pairs = Counter((gold[row], says[row]) for row in wrong)
    return [{"gold": label, "answer": other, "rows": count} for (label, other), count in pairs.most_common()]


def _listed(run: Run, split: Split, wrong: np.ndarray, scores: np.ndarray, shown: int) -> list[dict[str, Any]]:
    """The worst of these rows with their texts; `score` is the probability of the answer, None if it has none."""
    says, there = run.says(split), "score" in run.answers.column_names
    sure = run.answers.column("score").to_numpy().astype(np.float64) if there else np.zeros(len(scores))
    worst = wrong[np.lexsort((-sure[wrong], scores[wrong]))][:shown]
    return [
        line | {"answer": says[row], "score": round(float(sure[row]), 4) if there else None}
        for line, row in zip(evaluated_run.with_texts(worst, split), worst, strict=True)
    ]
