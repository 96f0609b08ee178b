"""Rows of a job's input that mended values belong to: a column that was not mended is taken from them."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core import tables
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.scoring import columns, job_folders, job_record, pieces, row_checks
from pipelines.scoring.job_folders import GoneError
from pipelines.scoring.job_record import Job, Planned
from pipelines.scoring.partitions import Partition
from pipelines.scoring.text_records import Record

Values = dict[str, Any]  # column -> value: an Arrow scalar, or as JSON and CSV have it


def completed(mended: dict[int, Values], names: list[str], job: Job, planned: Planned, task: Task) -> dict[int, Values]:
    """The mended rows of a partition, with the columns among `names` that they lack from its rows.

    Raises InputError for a column that is no input of the task if its row cannot be read now as the job read it.
    """
    lacking = [name for name in names if any(name not in values for values in mended.values())]
    stored = _stored_rows(job, planned, task, mended.keys(), lacking) if lacking else {}
    inputs = columns.inputs(task.kind)
    whole = {number: (stored or {}).get(number, {}) | values for number, values in mended.items()}
    for number, values in whole.items():
        if missing := [name for name in names if name not in values and name not in inputs]:
            why = "the file changed since the job began" if stored is None else "its row there cannot be read"
            raise InputError(
                f"row {number} of {planned.name}: `values` has no column {missing[0]!r}, and {why}; "
                "write the column too, or null"
            )
    return whole


def _stored_rows(
    job: Job, planned: Planned, task: Task, numbers: Iterable[int], names: list[str]
) -> dict[int, Values] | None:
    """The rows with these numbers; None if the file is gone, or not what it was when the job began."""
    with job_folders.opened(job.source) as source:
        partition = Partition(planned.name, source)
        try:
            with partition.here():
                if job_record.holds_others(planned, partition):
                    return None
                read = _of_parquet if partition.form == "parquet" else _of_text
                return dict(read(partition, task, set(numbers), names))
        except GoneError:
            return None


def _of_text(partition: Partition, task: Task, numbers: set[int], names: list[str]) -> Iterator[tuple[int, Values]]:
    for record in pieces.records(partition, task, hashlib.sha256())[1]:
        if record.row in numbers and isinstance(record, Record):
            yield record.row, {name: record.values.get(name) for name in names}


def _of_parquet(partition: Partition, task: Task, numbers: set[int], names: list[str]) -> Iterator[tuple[int, Values]]:
    inputs, first = columns.inputs(task.kind), 0
    for batch in tables.unchecked_batches(partition.path, names):
        rows = pa.Table.from_batches([batch])
        for number in sorted(numbers & set(range(first, first + batch.num_rows))):
            row = tables.taken(rows, np.array([number - first]))
            whole = [name for name in names if not row_checks.has_broken_text(row.select([name]))]
            scalars = {name: row.column(name)[0] for name in whole}
            yield number, {name: one.as_py() if name in inputs else one for name, one in scalars.items()}
        first += batch.num_rows
