"""Probabilities of labels as a table of predictions."""

from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.core import schema
from pipelines.core.task import Task

Rows = pa.Table | pa.RecordBatch  # the rows to predict


def softmax(logits: np.ndarray) -> np.ndarray:
    """Probabilities (B, C) of logits (B, C), computed in float64 so that rounding does not depend on the other rows."""
    powers = np.exp(logits.astype(np.float64) - logits.max(axis=1, keepdims=True))
    return (powers / powers.sum(axis=1, keepdims=True)).astype(np.float32)


def table(probabilities: np.ndarray, task: Task) -> pa.Table:
    """Probabilities (N, C), float32, as a table of predictions without ids."""
    best = probabilities.argmax(axis=1)
    ends = np.arange(len(best) + 1, dtype=np.int32) * np.int32(probabilities.shape[1])
    columns = {
        "label": pa.array([task.labels[i] for i in best.tolist()], pa.string()),
        "score": pa.array(probabilities[np.arange(len(best)), best]),
        "scores": pa.ListArray.from_arrays(pa.array(ends), pa.array(probabilities.reshape(-1))),
    }
    fields = schema.PREDICTIONS[task.kind]
    return pa.Table.from_arrays([*columns.values()], schema=pa.schema([fields.field(name) for name in columns]))


def submission(path: Path, answers: pa.Table, task: Task) -> None:
    """Write predictions in GLUE's form: a line per row with its index and its label, or id if `task.submits_ids`."""
    if task.kind == "regression":
        shown: list[object] = [f"{value:.3f}" for value in answers.column("value").to_pylist()]
    else:
        labels = answers.column("label").to_pylist()
        shown = [task.labels.index(label) for label in labels] if task.submits_ids else labels
    lines = (f"{index}\t{label}\n" for index, label in zip(answers.column("id").to_pylist(), shown, strict=True))
    path.write_text("index\tprediction\n" + "".join(lines), encoding="utf-8")
