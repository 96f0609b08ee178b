"""Read and write Parquet in batches of rows; a file is written to a temporary path and renamed; errors name it."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core.characters import HALF
from pipelines.core.errors import InputError, NoFileError, choices, one_line, shown
from pipelines.core.paths import fresh_file

BATCH_ROWS = 1024
BATCH_BYTES = 2 << 20
GROUP_BYTES = 8 << 20  # size of a row group in memory
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
        what = f"its text holds {HALF}"
        if not isinstance(error, UnicodeEncodeError):
            what = " ".join(str(error).split())
        raise InputError(f"row {rows[0].get('id')!r}: {what}") from None


def write(path: Path, parts: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    """Write record batches to one zstd Parquet file; returns the number of rows. `path` appears when it is complete.

    Batches are collected into row groups of GROUP_BYTES: readers open few groups, and memory holds at most one.
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
    """The Parquet file at `path`. Raises InputError if it is missing, not readable, or has a column's name twice."""
    if not path.is_file():
        raise NoFileError(f"{path}: no such file")
    try:
        file = pq.ParquetFile(path, pre_buffer=False)  # a buffer would hold all of the file
        names = file.schema_arrow.names
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable Parquet file ({one_line(error)})") from None
    if len(set(names)) < len(names):
        name = next(name for place, name in enumerate(names) if name in names[:place])
        raise InputError(f"{path}: two columns are named {shown(name)}; rename one of them")
    return file


def read(path: Path, columns: list[str] | None = None, schema: pa.Schema | None = None) -> pa.Table:
    """The whole table at `path`. Raises InputError if one of `columns` is missing, or does not conform to `schema`."""
    file = open_parquet(path)
    _require(path, file, columns, schema)
    with _readable(path):
        table = file.read(columns=columns)
    first = 0
    for batch in table.to_batches():
        _require_values(path, batch, schema, first)
        first += batch.num_rows
    return table


def read_batches(
    path: Path,
    columns: list[str] | None = None,
    size: int = BATCH_ROWS,
    size_bytes: int = BATCH_BYTES,
    schema: pa.Schema | None = None,
) -> Iterator[pa.RecordBatch]:
    """The table at `path` in batches of at most `size` rows and about `size_bytes`; memory is bounded for any file.

    Raises InputError if one of `columns` is missing, or does not conform to `schema`.
    """
    _require(path, open_parquet(path), columns, schema)
    first = 0
    for batch in unchecked_batches(path, columns, size):
        _require_values(path, batch, schema, first)
        first += batch.num_rows
        count = max(1, batch.num_rows * size_bytes // max(1, batch.nbytes))
        yield from (batch.slice(start, count) for start in range(0, batch.num_rows, count))


def unchecked_batches(path: Path, columns: list[str] | None = None, size: int = BATCH_ROWS) -> Iterator[pa.RecordBatch]:
    """The table at `path` in batches of at most `size` rows, fewer where rows are large; texts may be no UTF-8."""
    file = open_parquet(path)
    groups = (file.metadata.row_group(i) for i in range(file.metadata.num_row_groups))
    row_bytes = max(1, sum(group.total_byte_size for group in groups) // max(1, file.metadata.num_rows))
    size = min(size, max(1, GROUP_BYTES // row_bytes))  # the number of rows that are decoded at once
    batches = file.iter_batches(batch_size=size, columns=columns)
    while True:
        with _readable(path):
            batch = next(batches, None)
        if batch is None:
            return
        yield batch


def taken(rows: pa.Table, places: np.ndarray) -> pa.Table:
    """The rows at `places`, of columns of any type."""
    return pa.table([_taken(column, places) for column in rows.columns], schema=rows.schema)


def _taken(column: pa.ChunkedArray, places: np.ndarray) -> pa.ChunkedArray:
    try:
        return column.take(pa.array(places))
    except pa.ArrowNotImplementedError:  # of string_view and binary_view, at any depth
        return pa.chunked_array([chunk for i in places for chunk in column.slice(i, 1).chunks], column.type)


def rows(batch: pa.RecordBatch | pa.Table, path: Path) -> list[dict[str, Any]]:
    """The rows of a batch of the file at `path`. Raises InputError for values that Python cannot represent."""
    with _readable(path):
        return batch.to_pylist()


def _require(path: Path, file: pq.ParquetFile, columns: list[str] | None, schema: pa.Schema | None) -> None:
    """Raise InputError unless the file has `columns` (None: all of `schema`), with the types of `schema`."""
    stored = file.schema_arrow
    for name in columns if columns is not None else schema.names if schema else []:
        if name not in stored.names:
            raise InputError(f"{path}: {choices('column', name, stored.names)}")
        if schema and name in schema.names and stored.field(name).type != schema.field(name).type:
            held, expected = stored.field(name).type, schema.field(name).type
            raise InputError(f"{path}: the column {name!r} holds {held}; {expected} is expected")


def _require_values(path: Path, batch: pa.RecordBatch, schema: pa.Schema | None, first: int) -> None:
    """Raise InputError for nulls that the schema does not allow; `first` is the number of the batch's first row."""
    with _readable(path):
        batch.validate(full=True)  # Arrow does not check earlier whether text is UTF-8
    for field in schema or []:
        if field.name in batch.schema.names:
            column = batch.column(field.name)
            if column.null_count and not field.nullable:
                row = first + column.is_null().to_pylist().index(True)
                raise InputError(f"{path}: a row has no {field.name}: row {row}")
            if pa.types.is_list(column.type) and _has_null(column.flatten()):
                raise InputError(f"{path}: a row has a null inside its {field.name}")


def _has_null(values: pa.Array) -> bool:
    """Return whether the values have a null at any depth of lists and structs."""
    if pa.types.is_list(values.type):
        return bool(values.null_count) or _has_null(values.flatten())
    parts = values.flatten() if pa.types.is_struct(values.type) else []
    return bool(values.null_count) or any(part.null_count for part in parts)


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn Arrow's errors for damaged pages, or for text that is not UTF-8, into InputError."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise InputError(
            f"{path}: a text in it is not UTF-8: {error.object[error.start : error.start + 8]!r}"
        ) from None
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise InputError(f"{path}: its rows cannot be read ({one_line(error)}); was the file cut or damaged?") from None
