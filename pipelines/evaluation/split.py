"""One split of a task, predicted and scored from its Parquet file part by part.

Memory holds the texts, token ids and logits of one part, and the ids, targets and predictions of all rows.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core import tables
from pipelines.core.errors import InputError
from pipelines.core.schema import INPUTS, ROWS, TARGETS
from pipelines.core.task import Task
from pipelines.evaluation.prediction_scores import score

PART_ROWS = 2048  # enough rows of each length for full batches
PART_BYTES = 512 << 10  # of texts; their windows, offsets and logits take a hundred times as much
Predict = Callable[[pa.RecordBatch], pa.Table]


@dataclass(frozen=True)
class Split:
    """The rows in the Parquet file at `path` (schema.ROWS)."""

    path: Path
    task: Task

    @property
    def rows(self) -> int:
        return tables.open_parquet(self.path).metadata.num_rows

    def parts(self) -> Iterator[pa.RecordBatch]:
        """The ids and inputs (schema.INPUTS) of all rows, in order; each call starts at the first row."""
        columns = ["id", *INPUTS[self.task.kind]]
        return tables.read_batches(self.path, columns, PART_ROWS, PART_BYTES, ROWS[self.task.kind])

    def spread(self, count: int) -> pa.Table:
        """The ids and inputs of at most `count` rows, evenly spread."""
        picks = np.linspace(0, self.rows - 1, min(count, self.rows)).astype(int)
        parts, start = [], 0
        for part in self.parts():
            parts.append(part.take(picks[(start <= picks) & (picks < start + part.num_rows)] - start))
            start += part.num_rows
        return pa.Table.from_batches(parts)

    def targets(self) -> pa.Table:
        """The ids of all rows, and the target column if the file has it."""
        there_are = tables.open_parquet(self.path).schema_arrow.names
        columns = [name for name in ("id", TARGETS[self.task.kind]) if name in there_are]
        return tables.read(self.path, columns, ROWS[self.task.kind])

    def write(self, predict: Predict, folder: Path) -> float:
        """Write predictions into `folder` part by part; returns the seconds that `predict` took."""
        seconds = 0.0

        def predicted() -> Iterator[pa.RecordBatch]:
            nonlocal seconds
            for part in self.parts():
                start = time.perf_counter()
                answers = predict(part)
                seconds += time.perf_counter() - start
                yield from answers.to_batches()

        batches = predicted()
        if not (first := next(batches, None)):
            raise InputError(f"{self.path}: it has no rows")
        tables.write(folder / self.path.name, chain([first], batches), first.schema)
        return seconds

    def read(self, folder: Path) -> pa.Table:
        """The predictions that `write` wrote into `folder`; only the columns that scoring reads."""
        path = folder / self.path.name
        return tables.read(path, _for_scores(tables.open_parquet(path).schema_arrow.names))

    def predicted(self, predict: Predict) -> pa.Table:
        """The predictions for all parts, in memory; only the columns that scoring reads."""
        parts = (predict(part) for part in self.parts())
        answers = [answers.select(_for_scores(answers.column_names)) for answers in parts]
        if not answers:
            raise InputError(f"{self.path}: it has no rows")
        return pa.concat_tables(answers)

    def score(self, predict: Predict) -> dict[str, Any]:
        """The scores of the predictions for all parts."""
        return score(self.targets(), self.predicted(predict), self.task)


def _for_scores(names: list[str]) -> list[str]:
    """All columns except `scores`, the probabilities of every label."""
    return [name for name in names if name != "scores"]
