"""A partition in pieces of rows that can be scored, each with the bad rows that lie among them."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core import characters, hashed_file, json_file, tables
from pipelines.core.errors import InputError
from pipelines.core.hashed_file import Hash
from pipelines.core.task import Task
from pipelines.scoring import columns, row_checks, text_records
from pipelines.scoring.columns import Forms
from pipelines.scoring.partitions import Partition
from pipelines.scoring.quarantine import Bad
from pipelines.scoring.text_records import Record

PIECE_ROWS = 256  # rows that are decoded at once: more would be many bytes where a long text repeats
PIECE_BYTES = 1 << 20


@dataclass
class Piece:
    """Consecutive rows of a partition: those that can be scored, (n,), and those that cannot."""

    rows: pa.Table  # (n,) with all columns
    inputs: pa.Table  # (n,) with the task's inputs, in the types that the predictor reads
    numbers: np.ndarray  # (n,) int64, the rows' numbers in the partition
    bad: list[Bad]


def read(partition: Partition, task: Task, longest: int, forms: Forms, hashing: Hash) -> Iterator[Piece]:
    """The pieces of a partition in order; `forms` are those of the columns of a text file, see `columns`.

    At their end `hashing` has all bytes of the file: of a text file those that were read; a Parquet file, which is not
    read in order, is read again.

    Raises InputError if the file cannot be read, or its columns are not those of the task.
    """
    if partition.form == "parquet":
        yield from _of_parquet(partition, task, longest)
        hashed_file.read(partition.path, hashing)
    else:
        yield from of_records(records(partition, task, hashing)[1], task, longest, forms)


def records(partition: Partition, task: Task, hashing: Hash) -> tuple[list[str], Iterable[Record | Bad]]:
    """The header of a text file, empty for JSONL, and its records; `hashing` gets the bytes that they are read from.

    Raises InputError if an input is not in it.
    """
    if partition.form == "jsonl":
        return [], text_records.jsonl(partition.path, hashing)
    header, stream = text_records.csv_(partition.path, hashing)
    if header:
        row_checks.require_columns(pa.schema([(name, pa.string()) for name in header]), task, text=True)
    return header, stream


def scored_schema(partition: Partition, task: Task, forms: Forms) -> pa.Schema:
    """The columns of a partition, as they stand in its output before what is added."""
    if partition.form == "parquet":
        return tables.open_parquet(partition.path).schema_arrow
    fields = list(columns.inputs(task.kind).items())
    return pa.schema([*fields, *((name, columns.TYPES[form]) for name, form in forms.items())])


def joined(pieces: Iterable[Piece], rows: int, size_bytes: int) -> Iterator[Piece]:
    """Pieces put together until they have `rows` rows or `size_bytes` of inputs; a larger one stays as it is."""
    pending: list[Piece] = []
    for piece in pieces:
        pending.append(piece)
        many = sum(len(p.numbers) for p in pending) >= rows
        if many or sum(p.inputs.nbytes + len(p.bad) * 1024 for p in pending) >= size_bytes:
            yield _together(pending)
            pending = []
    if pending:
        yield _together(pending)


def _together(pieces: list[Piece]) -> Piece:
    if len(pieces) == 1:
        return pieces[0]
    numbers = np.concatenate([piece.numbers for piece in pieces])
    bad = [one for piece in pieces for one in piece.bad]
    rows = pa.concat_tables([piece.rows for piece in pieces])
    return Piece(rows, pa.concat_tables([piece.inputs for piece in pieces]), numbers, bad)


def _of_parquet(partition: Partition, task: Task, longest: int) -> Iterator[Piece]:
    row_checks.require_columns(tables.open_parquet(partition.path).schema_arrow, task)
    first = 0
    for batch in tables.unchecked_batches(partition.path, size=PIECE_ROWS):
        rows = pa.Table.from_batches([batch])
        numbers = np.arange(first, first + batch.num_rows, dtype=np.int64)
        first += batch.num_rows
        rows, numbers, bad = row_checks.without_broken_text(rows, numbers, task)
        yield checked(rows, numbers, bad, task, longest)


def checked(rows: pa.Table, numbers: np.ndarray, bad: list[Bad], task: Task, longest: int) -> Piece:
    """A piece of those rows that can be scored; the others are added to `bad`."""
    inputs = row_checks.inputs(rows, task)
    by_row = row_checks.faults(inputs, numbers, task, longest)
    if by_row:
        good = np.setdiff1d(np.arange(len(numbers)), np.array(sorted(by_row)))
        rows, inputs, numbers = tables.taken(rows, good), inputs.take(good), numbers[good]
    return Piece(rows, inputs, numbers, sorted([*bad, *by_row.values()], key=lambda one: one.row))


def of_records(stream: Iterable[Record | Bad], task: Task, longest: int, forms: Forms) -> Iterator[Piece]:
    """The pieces of a text file's records, with the inputs and the columns of `forms`."""
    good: list[Record] = []
    bad: list[Bad] = []
    size = 0
    for record in stream:
        fault = record if isinstance(record, Bad) else input_fault(record, task)
        if fault:
            bad.append(fault)
            size += 1024
        elif isinstance(record, Record):
            good.append(record)
            size += record.size_bytes
        if len(good) + len(bad) >= PIECE_ROWS or size >= PIECE_BYTES:
            yield of_values(good, bad, task, longest, forms)
            good, bad, size = [], [], 0
    yield of_values(good, bad, task, longest, forms)


def of_values(good: list[Record], bad: list[Bad], task: Task, longest: int, forms: Forms) -> Piece:
    """A piece from the values of records whose inputs have the right types."""
    arrays: dict[str, pa.Array] = {}
    for name, kind in columns.inputs(task.kind).items():
        arrays[name] = pa.array([record.values[name] for record in good], kind)
    for name in forms:
        arrays[name] = columns.array(name, [record.values.get(name) for record in good], forms)
    numbers = np.array([record.row for record in good], np.int64)
    return checked(pa.table(arrays), numbers, bad, task, longest)


def input_fault(record: Record, task: Task) -> Bad | None:
    """The first input of a record that is missing or of a wrong type; a CSV's list of texts is read as JSON."""
    for name, kind in columns.inputs(task.kind).items():
        value: Any = record.values.get(name)
        several = pa.types.is_list(kind)
        if several and isinstance(value, str):
            with suppress(ValueError, RecursionError):
                value = record.values[name] = json_file.parsed(value)
        if value is None:
            return Bad.of(record.row, "null_value", record.raw, column=name)
        texts = isinstance(value, list) and all(isinstance(one, str | None) for one in value)
        if not (texts if several else isinstance(value, str)):
            expected = "a list of texts" if several else "text"
            return Bad.of(record.row, "wrong_type", record.raw, column=name, expected=expected)
        if not characters.are_whole(one or "" for one in value):
            return Bad.of(record.row, "not_utf8", record.raw)
    return None


def require_free(names: list[str], added: list[str]) -> None:
    """Raise InputError if a column of the input has the name of one that is added."""
    for name in added:
        if name in names:
            raise InputError(f"it already has a column {name!r}; give the new columns a prefix")


def empty_inputs(task: Task) -> pa.Table:
    """The inputs of no row."""
    return pa.schema(list(columns.inputs(task.kind).items())).empty_table()
