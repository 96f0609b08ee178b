"""Parquet in and out: batches of rows, written aside and renamed, read with errors that name the file."""

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
# Token ids take 1.25 bytes each this way; with Parquet's dictionaries, which are full after a few pages, 1.45.
FORM: dict[str, Any] = {"compression": "zstd", "compression_level": 3, "use_dictionary": False}


def batches(rows: Iterable[dict[str, Any]], schema: pa.Schema, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """Dictionaries to record batches of at most `size` rows."""
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
        if len(rows) > 1:  # which row is it
            for row in rows:
                _batch([row], schema)
        what = "its text holds half of a surrogate pair, which is no letter"  # JSON can write one
        if not isinstance(error, UnicodeEncodeError):
            what = " ".join(str(error).split())
        raise InputError(f"row {rows[0].get('id')!r}: {what}") from None


def write(path: Path, parts: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    """Write record batches to one zstd Parquet file; returns its rows. `path` appears only when it is whole.

    Batches are gathered into row groups of GROUP_BYTES: few for a reader to open, and no more of them in memory.
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
    """The Parquet file at `path`, or one sentence about what is wrong with it."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        return pq.ParquetFile(path, pre_buffer=False)  # which would hold all of the file
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]})") from None


def read(path: Path, columns: list[str] | None = None) -> pa.Table:
    """The whole table at `path`; `columns` must all be there."""
    file = open_parquet(path)
    there_are = file.schema_arrow.names
    missing = [c for c in columns or [] if c not in there_are]
    if missing:
        raise InputError(f"{path}: no column {missing[0]!r}; there are: {', '.join(there_are)}")
    return file.read(columns=columns)


def read_batches(path: Path, columns: list[str] | None = None, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The table at `path` in batches of at most `size` rows and about BATCH_BYTES: memory does not grow with the file."""
    for batch in open_parquet(path).iter_batches(batch_size=size, columns=columns):
        rows = max(1, batch.num_rows * BATCH_BYTES // max(1, batch.nbytes))
        yield from (batch.slice(start, rows) for start in range(0, batch.num_rows, rows))
