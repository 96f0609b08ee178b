"""Decode a model's outputs by the kind of rows: labels, a number, a span of the context, entities, a choice.

Each function takes the rows, their encoded sequences (whose `id` is the number of their row), the outputs of each
sequence (see models.heads.outputs) and the task. It returns predictions (schema.PREDICTIONS) without ids.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.task import Task
from pipelines.evaluation import predictions
from pipelines.evaluation.predictions import Rows
from pipelines.text.encoding import tagging

Outputs = list[np.ndarray]  # one array for each sequence: (C,), or (T, C) for its tokens
LONGEST = 30  # the most tokens of an answer, as in BERT's run_squad
BEST = 20  # how many of the likeliest first and last tokens are paired
RULES = 1  # the number of the rules of this file; a change that gives the same outputs another score takes the next


def labels(rows: Rows, encoded: pa.RecordBatch, outputs: Outputs, task: Task) -> pa.Table:
    """The likeliest label of each row, from its one sequence or from one sequence for each choice."""
    logits = np.array(outputs, np.float32).reshape(rows.num_rows, len(task.labels))
    return predictions.table(predictions.softmax(logits), task)


def value(rows: Rows, encoded: pa.RecordBatch, outputs: Outputs, task: Task) -> pa.Table:
    numbers = pa.array(np.array(outputs, np.float32).reshape(-1))
    return pa.Table.from_arrays([numbers], schema=_fields(task))


def _of_rows(rows: Rows, encoded: pa.RecordBatch) -> list[list[int]]:
    """The indices of the sequences of each row."""
    sequences: list[list[int]] = [[] for _ in range(rows.num_rows)]
    for i, row in enumerate(encoded.column("id").to_pylist()):
        sequences[int(row)].append(i)
    return sequences


class Span(NamedTuple):
    """A span of the context, in characters, and the sum of its two logits."""

    logit: float
    start: int
    end: int


def span(rows: Rows, encoded: pa.RecordBatch, outputs: Outputs, task: Task) -> pa.Table:
    """The likeliest span over all windows of a row, or no answer, which scores the least [CLS] of them (SQuAD 2.0)."""
    columns = {name: encoded.column(name) for name in ("first_length", "starts", "ends")}
    answers = []
    for context, windows in zip(rows.column("context").to_pylist(), _of_rows(rows, encoded), strict=True):
        spans: list[Span] = []
        for i in windows:
            starts, ends = (columns[name][i].values.to_numpy() for name in ("starts", "ends"))
            spans += _spans(outputs[i], columns["first_length"][i].as_py(), starts, ends)
        answers.append(_answer(context, spans, min(float(outputs[i][0].sum()) for i in windows), task.unanswerable))
    return pa.Table.from_pylist(answers, schema=_fields(task))


def _answer(context: str, spans: list[Span], null: float, unanswerable: bool) -> dict[str, Any]:
    """The prediction for one row.

    Args:
        spans: the likeliest spans of all its windows; one that several windows hold counts once, by its best logit.
        null: the score of no answer: the least sum, over the windows, of the two logits of [CLS].
    """
    likeliest = _likeliest(spans) or [Span(-1e9, 0, 0)]
    best = likeliest[0]
    gap = null - best.logit
    none = unanswerable and gap > 0
    others = [s.logit for s in likeliest] + ([null] if unanswerable else [])
    text = context[best.start : best.end]
    return {
        "answer": "" if none else text,
        "start": best.start,
        "score": float(np.exp((null if none else best.logit) - np.logaddexp.reduce(others))),
        "best": text,
        "no_answer": gap,
    }


def _likeliest(spans: list[Span]) -> list[Span]:
    """At most BEST different spans, the likeliest first."""
    different: dict[tuple[int, int], Span] = {}
    for candidate in sorted(spans, key=lambda s: -s.logit):
        different.setdefault((candidate.start, candidate.end), candidate)
        if len(different) == BEST:
            break
    return list(different.values())


def _spans(logits: np.ndarray, head: int, starts: np.ndarray, ends: np.ndarray) -> list[Span]:
    """The likeliest spans of one window, from its (T, 2) logits; the context begins at token `head`."""
    context = logits[head : len(starts) - 1].astype(np.float64)
    first, last = (np.argsort(-column, kind="stable")[:BEST] for column in context.T)
    sums = context[first, 0][:, None] + context[last, 1][None, :]  # (BEST, BEST)
    length = last[None, :] - first[:, None]
    a, b = np.nonzero((length >= 0) & (length < LONGEST))
    return [
        Span(float(sums[i, j]), int(starts[head + first[i]]), int(ends[head + last[j]]))
        for i, j in zip(a, b, strict=True)
    ]


def entities(rows: Rows, encoded: pa.RecordBatch, outputs: Outputs, task: Task) -> pa.Table:
    """The entities of each row, decoded from the tags of all its parts, and the probability of each.

    It is the mean of the tags that name the entity, each the likeliest of its token: transformers' pipeline has the
    same numbers by its strategy "simple" where every token names one, and by "first" where a word's first does.
    """
    names = tagging.tags(task)
    answers: list[dict[str, Any]] = []
    for text, parts in zip(rows.column("text").to_pylist(), _of_rows(rows, encoded), strict=True):
        tokens: list[tuple[int, int, str, float]] = []
        for i in parts:
            inner = slice(1, len(encoded.column("starts")[i].values) - 1)  # without [CLS] and [SEP]
            probabilities = predictions.softmax(outputs[i][inner]) if len(outputs[i]) > 2 else np.zeros((0, len(names)))
            starts, ends = (encoded.column(name)[i].values.to_numpy()[inner].tolist() for name in ("starts", "ends"))
            tags = [names[best] for best in probabilities.argmax(axis=1)]
            tokens += zip(starts, ends, tags, probabilities.max(axis=1, initial=0).tolist(), strict=True)
        starts, ends, tags, sure = map(list, zip(*tokens, strict=True)) if tokens else ([], [], [], [])
        score = float(np.mean(sure)) if sure else 1.0
        decoded = tagging.decode(text, task, starts, ends, tags)
        scores = [float(np.mean([sure[token] for token in named])) for named in decoded.tokens]
        answers.append({"entities": decoded.entities, "score": score, "entity_scores": scores})
    return pa.Table.from_pylist(answers, schema=_fields(task))


def rescored(kind: str, rules: int) -> bool:
    """Return whether answers of a kind that were decoded by the rules of this number may have another `score` now.

    Before 1, a span that several windows hold counted once for each.
    """
    return kind == "span" and rules < 1


def _fields(task: Task) -> pa.Schema:
    return pa.schema(list(schema.PREDICTIONS[task.kind])[1:])


Decode = Callable[[Rows, pa.RecordBatch, Outputs, Task], pa.Table]
FOR_KIND: dict[str, Decode] = dict.fromkeys(("single", "pair", "choice"), labels)
FOR_KIND |= {"regression": value, "span": span, "tagging": entities}
