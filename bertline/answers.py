"""The answers of a model in plain Python, from its predictions (schema.PREDICTIONS)."""

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.core.errors import UsageError
from pipelines.core.task import Task

CLASSES = ("single", "pair", "choice")


class Answer(NamedTuple):
    """The answer to a question: `context[start:end] == text`. Without an answer, `text` is empty."""

    text: str
    score: float  # the probability of the answer among the likeliest spans
    start: int
    end: int


class Entity(NamedTuple):
    """An entity: `text` is the row's text from `start` to `end`, in characters."""

    text: str
    label: str
    start: int
    end: int
    score: float  # the mean probability of its tags


def plain(predictions: pa.Table, rows: pa.Table, task: Task) -> list[Any]:
    """The answer for each row, by the kind of the model.

    single, pair: a label. regression: a number. choice: the text of the choice. span: an Answer. tagging: a list of
    Entity.
    """
    if task.kind in ("single", "pair"):
        return predictions.column("label").to_pylist()
    if task.kind == "regression":
        return predictions.column("value").to_pylist()
    if task.kind == "choice":
        numbers = (task.labels.index(label) for label in predictions.column("label").to_pylist())
        return [options[i] for options, i in zip(rows.column("choices").to_pylist(), numbers, strict=True)]
    if task.kind == "span":
        return [
            Answer(
                row["answer"], row["score"], start := row["start"] if row["answer"] else 0, start + len(row["answer"])
            )
            for row in predictions.select(["answer", "score", "start"]).to_pylist()
        ]
    texts = rows.column("text").to_pylist()
    return [
        [
            Entity(text[entity["start"] : entity["end"]], entity["label"], entity["start"], entity["end"], score)
            for entity, score in zip(row["entities"], row["entity_scores"], strict=True)
        ]
        for text, row in zip(texts, predictions.select(["entities", "entity_scores"]).to_pylist(), strict=True)
    ]


def probabilities(predictions: pa.Table, task: Task) -> np.ndarray:
    """The probability of each label, float32 (B, C), in the order of the labels. Raises UsageError without labels."""
    if task.kind not in CLASSES:
        raise UsageError(f"a model of kind {task.kind} has no probabilities of labels; use predict or table")
    flat = predictions.column("scores").combine_chunks().flatten()
    return flat.to_numpy(zero_copy_only=False).reshape(predictions.num_rows, len(task.labels))
