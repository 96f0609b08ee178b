"""Files of encoder states beside a job's answers: for each scored row of a partition the features that the head reads.

A file has the rows of its file of answers, in the same order, as Arrow: a column `state` of F floats. It lies below a
folder that is named by the digest of the encoder (see pipelines.inference.encoder_states).
"""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.core.errors import InputError, listed
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.job_record import Planned

FOLDER = "_states"
COLUMN = "state"
BATCH_ROWS = 4096  # states in a batch where they are collected: 12 MB of BERT-base


def place(digest: str, output: str) -> str:
    """The path of the states of a file of answers below the target."""
    return f"{FOLDER}/{digest[:16]}/{output}.arrow"


def table(states: np.ndarray) -> pa.Table:
    """States (n, F) as a table."""
    values = pa.array(np.ascontiguousarray(states, np.float32).reshape(-1))
    return pa.table({COLUMN: pa.FixedSizeListArray.from_arrays(values, states.shape[1])})


def numbers(states: pa.Table | pa.RecordBatch) -> np.ndarray:
    """The states of a table, (n, F) float32."""
    column = states.column(COLUMN)
    whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return whole.flatten().to_numpy().reshape(-1, whole.type.list_size)


class StatesFile:
    """Writes the states of a partition piece by piece."""

    def __init__(self, path: Path, width: int) -> None:
        self.path = path
        self._writer = pa.ipc.new_file(str(path), table(np.zeros((0, width), np.float32)).schema)

    def write(self, states: np.ndarray) -> None:
        if len(states):
            self._writer.write_table(table(states))

    def __enter__(self) -> "StatesFile":
        return self

    def __exit__(self, *failure: object) -> None:
        self._writer.close()


class StatesReader:
    """Reads the states of a file in order, as many rows at a time as are asked for."""

    def __init__(self, path: Path) -> None:
        self._file = pa.ipc.open_file(pa.memory_map(str(path)))
        self._batches = self._tables()
        self._rest = self._file.schema.empty_table()

    def _tables(self) -> Iterator[pa.Table]:
        for number in range(self._file.num_record_batches):
            yield pa.Table.from_batches([self._file.get_batch(number)])

    def next(self, rows: int) -> pa.Table:
        """The states of the next rows; fewer if the file ends."""
        parts = [self._rest]
        while sum(map(len, parts)) < rows and (following := next(self._batches, None)) is not None:
            parts.append(following)
        whole = pa.concat_tables(parts)
        self._rest = whole.slice(rows)
        return whole.slice(0, rows)


def require_sizes(planned: list[Planned], width: int, target: Folder) -> None:
    """Raise InputError, with all findings, if the states of partitions are too large for the folder of the answers."""
    limit = target.largest_bytes
    large = [one.name for one in planned if limit and (one.rows - one.bad) * width * 4 > limit]
    if limit and large:
        raise InputError(f"{target}: it takes states of at most {limit >> 30} GiB a file: divide {listed(large)}")
