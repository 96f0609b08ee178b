"""A model that the service answers with: a version, its predictor and its queue."""

import os
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from pipelines.core import schema
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.inference import predictor as predictors
from pipelines.inference.predictor import Predictor
from pipelines.measurement import row_exactness
from pipelines.serving import limits
from pipelines.serving.row_batcher import RowBatcher
from pipelines.tracking import registry


def workers() -> int:
    """The number of batches that run at the same time: one for each core that this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True)
class ServedModel:
    """One version, opened; a request uses the same one from its first check to its answer."""

    name: str  # its name in the service
    version: registry.Version
    predictor: Predictor
    batcher: RowBatcher
    row_difference: float  # the largest difference of a row's logits alone and in company; 0.0 if exact

    @classmethod
    def open(cls, name: str, version: registry.Version, runtime: str, pool: Executor) -> "ServedModel":
        """Open `version`, and measure how far a row depends on the rows beside it.

        Args:
            runtime: onnx or torch; by default that of the version's tag.
            pool: the threads that run the model.
        """
        # many sessions of one thread answer more requests than one session of many threads
        predictor = Predictor.load(registry.folder(version, runtime), threads=1)
        difference = row_exactness.largest_difference(predictor, sequences=8, partitions=2)
        return cls(name, version, predictor, RowBatcher(predictor, pool, workers()), difference)

    @property
    def task(self) -> Task:
        return self.predictor.task

    @property
    def inputs(self) -> list[str]:
        """The columns of a row."""
        return schema.INPUTS[self.task.kind]

    def rows(self, columns: dict[str, list[Any]]) -> pa.RecordBatch:
        """The rows of a request, checked. Raises InputError for a wrong column or value."""
        if extra := sorted(set(columns) - set(self.inputs)):
            raise InputError(f"{self.version} takes {', '.join(self.inputs)}, but not {extra[0]}")
        limits.check(columns)
        kind = self.task.kind
        arrays = {name: pa.array(values, schema.ROWS[kind].field(name).type) for name, values in columns.items()}
        return predictors.inputs(pa.table(arrays), self.task).drop_columns(["id"])

    async def predict(self, columns: dict[str, list[Any]], key: str = "") -> list[dict[str, Any]]:
        """The predictions (schema.PREDICTIONS, without ids) for rows, in their order.

        Args:
            columns: the values of each column of the rows.
            key: whose request it is; requests of one key share their turn.

        Raises:
            InputError: a column or a value is wrong.
            BusyError: too many requests are waiting.
        """
        return await self.batcher.predict(self.rows(columns), key)
