"""What a model's outputs say, by the kind of rows: labels, a number, a span of the context, entities, a choice.

Each function takes the rows, their encoded sequences, the outputs of each sequence (see models.heads.outputs) and the
task, and returns predictions (schema.PREDICTIONS) without ids.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.task import Task
from pipelines.evaluation import predictions
from pipelines.text.encoding import tagging

Outputs = list[np.ndarray]  # of each sequence: (C,), or (T, C) of its tokens
LONGEST = 30  # tokens of an answer, as BERT's own run_squad has it
BEST = 20  # of the likeliest first and last tokens that are paired


def labels(rows: pa.RecordBatch, encoded: pa.RecordBatch, outputs: Outputs, task: Task) -> pa.Table:
    """The likeliest label of each row, by its one sequence or by one sequence a choice."""
    logits = np.array(outputs, np.float32).reshape(rows.num_rows, len(task.labels))
    return predictions.table(predictions.softmax(logits), task)


def value(rows: pa.RecordBatch, encoded: pa.RecordBatch, outputs: Outputs, task: Task) -> pa.Table:
    numbers = pa.array(np.array(outputs, np.float32).reshape(-1))
    return pa.Table.from_arrays([numbers], schema=_fields(task))


class Span(NamedTuple):
    """A span of the context, in characters, and the sum of its two logits."""

    logit: float
    start: int
    end: int


def span(rows: pa.RecordBatch, encoded: pa.RecordBatch, outputs: Outputs, task: Task) -> pa.Table:
    """The likeliest span over all windows of a row, against the [CLS] of the window that wants it least (SQuAD 2.0)."""
    columns = {name: encoded.column(name) for name in ("id", "first_length", "starts", "ends")}
    found: dict[str, list[Span]] = {row: [] for row in rows.column("id").to_pylist()}
    null = dict.fromkeys(found, np.inf)
    for i, row in enumerate(columns["id"].to_pylist()):
        starts, ends = (columns[name][i].values.to_numpy() for name in ("starts", "ends"))
        found[row] += _spans(outputs[i], columns["first_length"][i].as_py(), starts, ends)
        null[row] = min(null[row], float(outputs[i][0].sum()))
    answers = []
    for row, context in zip(found, rows.column("context").to_pylist(), strict=True):
        likeliest = sorted(found[row], key=lambda s: -s.logit)[:BEST] or [Span(-1e9, 0, 0)]
        best, gap = likeliest[0], null[row] - likeliest[0].logit
        others = [s.logit for s in likeliest] + ([null[row]] if task.unanswerable else [])
        said = null[row] if task.unanswerable and gap > 0 else best.logit
        text = context[best.start : best.end]
        answers.append(
            {
                "answer": "" if task.unanswerable and gap > 0 else text,
                "start": best.start,
                "score": float(np.exp(said - np.logaddexp.reduce(others))),
                "best": text,
                "no_answer": gap,
            }
        )
    return pa.Table.from_pylist(answers, schema=_fields(task))


def _spans(logits: np.ndarray, head: int, starts: np.ndarray, ends: np.ndarray) -> list[Span]:
    """The likeliest spans of one window: (T, 2) logits, of which those of the context begin at `head`."""
    context = logits[head : len(starts) - 1].astype(np.float64)
    first, last = (np.argsort(-column, kind="stable")[:BEST] for column in context.T)
    sums = context[first, 0][:, None] + context[last, 1][None, :]  # (BEST, BEST)
    length = last[None, :] - first[:, None]
    a, b = np.nonzero((length >= 0) & (length < LONGEST))
    return [
        Span(float(sums[i, j]), int(starts[head + first[i]]), int(ends[head + last[j]]))
        for i, j in zip(a, b, strict=True)
    ]


def entities(rows: pa.RecordBatch, encoded: pa.RecordBatch, outputs: Outputs, task: Task) -> pa.Table:
    """The entities that each row's tags spell, all of its parts together."""
    names = tagging.tags(task)
    tokens: dict[str, list[tuple[int, int, str, float]]] = {row: [] for row in rows.column("id").to_pylist()}
    for i, row in enumerate(encoded.column("id").to_pylist()):
        inner = slice(1, len(encoded.column("starts")[i].values) - 1)  # without [CLS] and [SEP]
        probabilities = predictions.softmax(outputs[i][inner]) if len(outputs[i]) > 2 else np.zeros((0, len(names)))
        starts, ends = (encoded.column(name)[i].values.to_numpy()[inner].tolist() for name in ("starts", "ends"))
        said = [names[best] for best in probabilities.argmax(axis=1)]
        tokens[row] += zip(starts, ends, said, probabilities.max(axis=1, initial=0).tolist(), strict=True)
    answers: list[dict[str, Any]] = []
    for (_, found), text in zip(tokens.items(), rows.column("text").to_pylist(), strict=True):
        starts, ends, said, sure = map(list, zip(*found, strict=True)) if found else ([], [], [], [])
        score = float(np.mean(sure)) if sure else 1.0
        answers.append({"entities": tagging.decode(text, task, starts, ends, said), "score": score})
    return pa.Table.from_pylist(answers, schema=_fields(task))


def _fields(task: Task) -> pa.Schema:
    return pa.schema(list(schema.PREDICTIONS[task.kind])[1:])


Decode = Callable[[pa.RecordBatch, pa.RecordBatch, Outputs, Task], pa.Table]
FOR_KIND: dict[str, Decode] = dict.fromkeys(("single", "pair", "choice"), labels)
FOR_KIND |= {"regression": value, "span": span, "tagging": entities}
