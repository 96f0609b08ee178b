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
    """Probabilities (N, C) as a table of predictions without ids."""
    best = probabilities.argmax(axis=1)
    flat = pa.array(probabilities.reshape(-1), pa.float32())
    ends = pa.array(np.arange(len(best) + 1) * probabilities.shape[1], pa.int32())
    columns = {
        "label": pa.array([task.labels[i] for i in best], pa.string()),
        "score": pa.array(probabilities[np.arange(len(best)), best], pa.float32()),
        "scores": pa.ListArray.from_arrays(ends, flat),
    }
    fields = [schema.PREDICTIONS[task.kind].field(name) for name in columns]
    return pa.table(
        [column.cast(f.type) for column, f in zip(columns.values(), fields, strict=True)], schema=pa.schema(fields)
    )


def submission(path: Path, answers: pa.Table, task: Task) -> None:
    """Write predictions in GLUE's form: a line per row with its index and its label, or id if `task.submits_ids`."""
    if task.kind == "regression":
        shown: list[object] = [f"{value:.3f}" for value in answers.column("value").to_pylist()]
    else:
        labels = answers.column("label").to_pylist()
        shown = [task.labels.index(label) for label in labels] if task.submits_ids else labels
    lines = (f"{index}\t{label}\n" for index, label in zip(answers.column("id").to_pylist(), shown, strict=True))
    path.write_text("index\tprediction\n" + "".join(lines), encoding="utf-8")
