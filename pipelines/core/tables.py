"""Read and write Parquet in batches of rows; files are written aside and renamed, and errors name the file."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core.errors import InputError
from pipelines.core.paths import fresh_file

BATCH_ROWS = 1024
BATCH_BYTES = 2 << 20
GROUP_BYTES = 8 << 20  # of a row group in memory
# Token ids take 1.25 bytes each; with Parquet's dictionaries, which fill up after a few pages, they take 1.45.
FORM: dict[str, Any] = {"compression": "zstd", "compression_level": 3, "use_dictionary": False}


def batches(rows: Iterable[dict[str, Any]], schema: pa.Schema, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Turn dictionaries into record batches of at most `size` rows."""
    pending: list[dict[str, Any]] = []
    for row in rows:
        pending.append(row)
        if len(pending) == size:
            yield _batch(pending, schema)
            pending = []
    if pending:
        yield _batch(pending, schema)


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    try:
        return pa.RecordBatch.from_pylist(rows, schema=schema)
    except (pa.ArrowException, UnicodeEncodeError, TypeError, OverflowError, AttributeError) as error:
        if len(rows) > 1:  # find the row that is wrong
            for row in rows:
                _batch([row], schema)
        what = "its text holds half of a surrogate pair, which is not a character"  # JSON can write one
        if not isinstance(error, UnicodeEncodeError):
            what = " ".join(str(error).split())
        raise InputError(f"row {rows[0].get('id')!r}: {what}") from None


def write(path: Path, parts: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    """Write record batches to one zstd Parquet file; returns the number of rows. `path` appears when it is complete.

    Batches are collected into row groups of GROUP_BYTES: a reader opens few, and memory holds no more than one.
    """
    count = 0
    with fresh_file(path) as aside, pq.ParquetWriter(aside, schema, **FORM) as writer:
        pending: list[pa.RecordBatch] = []
        for part in parts:
            pending.append(part)
            count += part.num_rows
            if sum(batch.nbytes for batch in pending) >= GROUP_BYTES:
                writer.write_table(pa.Table.from_batches(pending, schema))
                pending = []
        if pending:
            writer.write_table(pa.Table.from_batches(pending, schema))
    return count


def open_parquet(path: Path) -> pq.ParquetFile:
    """The Parquet file at `path`. Raises InputError if it is missing or not readable."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        return pq.ParquetFile(path, pre_buffer=False)  # a buffer would hold all of the file
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from None


def read(path: Path, columns: list[str] | None = None) -> pa.Table:
    """The whole table at `path`. Raises InputError if one of `columns` is missing."""
    file = open_parquet(path)
    there_are = file.schema_arrow.names
    missing = [c for c in columns or [] if c not in there_are]
    if missing:
        raise InputError(f"{path}: no column {missing[0]!r}; there are: {', '.join(there_are)}")
    return file.read(columns=columns)


def read_batches(
    path: Path, columns: list[str] | None = None, size: int = BATCH_ROWS, size_bytes: int = BATCH_BYTES
) -> Iterator[pa.RecordBatch]:
    """The table at `path` in batches of at most `size` rows and about `size_bytes`; memory is bounded for any file."""
    file = open_parquet(path)
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    row_bytes = max(1, sum(group.total_byte_size for group in groups) // max(1, file.metadata.num_rows))
    size = min(size, max(1, GROUP_BYTES // row_bytes))  # as many rows are decoded at once
    for batch in file.iter_batches(batch_size=size, columns=columns):
        rows = max(1, batch.num_rows * size_bytes // max(1, batch.nbytes))
        yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))
