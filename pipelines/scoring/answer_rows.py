"""Files of answers, read again: their rows with the columns that a job has added, whoever wrote them since."""

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core import schema, tables
from pipelines.core.errors import InputError, one_line
from pipelines.inference import row_digests
from pipelines.inference.receipts import UNSIGNED
from pipelines.scoring.job_folders import Folder

BATCH_ROWS = 1024
MARK = "model_digest"  # the column that each set of answers has
VERSION_COLUMNS = ("model_name", "model_version")
MODEL_COLUMNS = (*VERSION_COLUMNS, MARK)  # a job names the model's files too


class Unreadable:
    """A value that cannot be read, such as a text that is no UTF-8; it equals nothing, and no digest is made of it."""

    def __repr__(self) -> str:
        return "(unreadable)"


@dataclass(frozen=True)
class AnswerRows:
    """Consecutive rows of a file with one set of answers, whose columns begin with `prefix`."""

    file: Path
    first: int  # the place of the first row in the file, from 0
    rows: pa.Table
    prefix: str

    def values(self, name: str) -> list[Any]:
        """The values of a column of the answers; None for each row where there is no such column."""
        column = f"{self.prefix}{name}"
        return listed(self.rows.column(column)) if column in self.rows.column_names else [None] * len(self.rows)

    def answers(self, kind: str) -> list[dict[str, Any]]:
        """The answer of each row, with the columns that the release which wrote it knew.

        A later column is signed where it is there: if somebody removes or adds one, the digest is another.
        """
        absent = {name for name in schema.LATER if f"{self.prefix}{name}" not in self.rows.column_names}
        names = [name for name in schema.PREDICTIONS[kind].names if name not in {*UNSIGNED, *absent}]
        return [dict(zip(names, row, strict=True)) for row in zip(*map(self.values, names), strict=True)]

    def inputs(self, kind: str) -> list[bytes | None]:
        """The inputs of each row as `row_digests.framed` has them; None where one is missing or no text."""
        parts = [self._framed(name, schema.ROWS[kind].field(name).type) for name in schema.INPUTS[kind]]
        rows = zip(*parts, strict=True)
        return [None if None in row else b"".join(part for part in row if part is not None) for row in rows]

    def _framed(self, name: str, kind: pa.DataType) -> list[bytes | None]:
        nothing: list[bytes | None] = [None] * len(self.rows)
        if name not in self.rows.column_names:
            return nothing
        several = pa.types.is_list(kind)
        try:
            column = pa.chunked_array([dense(chunk) for chunk in self.rows.column(name).chunks])
            values = column.cast(pa.list_(pa.binary()) if several else pa.binary()).to_pylist()
        except (pa.ArrowException, TypeError):
            return nothing
        return [_or_none(row_digests.framed_texts if several else row_digests.framed_text, value) for value in values]

    def place(self, row: int) -> str:
        """The file and the place of a row in it, for a message."""
        of = f" ({self.prefix}...)" if self.prefix else ""
        return f"{self.file}: row {self.first + row}{of}"


def _or_none(framed: Callable[[Any], bytes], value: Any) -> bytes | None:
    try:
        return framed(value)
    except TypeError:  # null, or a null in a list
        return None


def dense(chunk: pa.Array) -> pa.Array:
    """The values of a dictionary; any other array as it is."""
    return chunk.dictionary_decode() if pa.types.is_dictionary(chunk.type) else chunk


def listed(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; those that Python cannot represent as Unreadable."""
    try:
        return column.to_pylist()
    except (ValueError, pa.ArrowException):
        return [_one(column, number) for number in range(len(column))]


def _one(column: pa.ChunkedArray, number: int) -> Any:
    try:
        return column[number].as_py()
    except (ValueError, pa.ArrowException):
        return Unreadable()


def files(folder: Folder) -> list[str]:
    """The names of the Parquet files of a folder, or of the file that it is. Raises InputError if there are none."""
    names = folder.names()
    shown = names if folder.is_file() else [name for name in names if name.endswith(".parquet")]
    if not shown:
        raise InputError(f"{folder}: no .parquet file is in this folder")
    return shown


def prefixes(columns: Sequence[str]) -> list[str]:
    """The prefixes of the sets of answers among columns."""
    return [name.removesuffix(MARK) for name in columns if name.endswith(MARK)]


def signed(kind: str) -> list[str]:
    """The columns of a prediction that a receipt signs, for a task of this kind."""
    return [name for name in schema.PREDICTIONS[kind].names if name not in UNSIGNED]


def other_answers(columns: Collection[str], prefixes: Collection[str]) -> list[str]:
    """The columns of sets of answers with other prefixes than these.

    A set names its model, or has all columns of a prediction that has several; one column `label` is none, and one
    `car_model_name` neither.
    """
    several = [[name for name in signed(kind) if name not in schema.LATER] for kind in schema.PREDICTIONS]
    others: dict[str, None] = {}
    of_model = [[MARK], [*VERSION_COLUMNS]]
    for names in (*of_model, *(names for names in several if len(names) > 1)):
        starts = [column.removesuffix(names[0]) for column in columns if column.endswith(names[0])]
        for start in starts:
            if start not in prefixes and all(f"{start}{name}" in columns for name in names):
                others |= dict.fromkeys(f"{start}{name}" for name in names)
    return [column for column in columns if column in others]


def read(folder: Folder, name: str, findings: list[str]) -> Iterator[AnswerRows]:
    """The rows of a file in pieces, for each set of answers; sentences are added to `findings` if it has none."""
    with folder.having(name):
        yield from _read(folder.place(name), findings)


def _read(file: Path, findings: list[str]) -> Iterator[AnswerRows]:
    try:
        sets = prefixes(tables.open_parquet(file).schema_arrow.names)
        if not sets:
            findings.append(f"{file}: no column {MARK}; a job of a folder writes one")
            return
        first = 0
        for batch in tables.unchecked_batches(file, size=BATCH_ROWS):
            rows = pa.Table.from_batches([batch])
            for prefix in sets:
                yield AnswerRows(file, first, rows, prefix)
            first += len(rows)
    except (InputError, pa.ArrowException) as error:
        message = one_line(error)
        findings.append(message if str(file) in message else f"{file}: {message}")
