"""Append records to a table in its own form: encoding, delimiter, columns, line ends. Its bytes stay as they are."""

import codecs
import csv
import io
import json
import shutil
import stat
from collections.abc import Collection, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core import tables
from pipelines.core.errors import FindingsError, InputError, shown
from pipelines.data.formats import delimiters, encodings
from pipelines.data.formats.records import Opener, Record, lines, plain
from pipelines.data.own_params import Params

HEAD_BYTES = 1 << 20  # of a file in which its line ends are looked for


def append(
    target: Path,
    aside: Path,
    form: str,
    options: Params,
    rows: Mapping[str, Record],
    needed: Collection[str],
    file: Path,
) -> None:
    """Write the table `target` with more rows to `aside`.

    Cells of columns that the new rows lack are empty; columns that the table lacks are not written.

    Args:
        rows: place in `file` -> the record.
        needed: columns that the table and the new rows must have.

    Raises FindingsError for cells that the table's encoding or form cannot hold.
    """
    aside.chmod(stat.S_IMODE(target.stat().st_mode) | stat.S_IWUSR)  # before the first text is in it
    if form == "parquet":
        _parquet(target, aside, rows, file)
        return
    if form == "json":
        _json_list(target, aside, options.encoding, rows)
        return
    encoding = _encoding(target, options.encoding)
    with target.open("rb") as head:
        line_end = "\r\n" if "\r\n".encode(encoding) in head.read(HEAD_BYTES) else "\n"
    opener = encodings.opener(options.encoding) or plain
    names = _header(target, form, options.delimiter, opener)
    if names and (lacking := sorted({*needed} - {*names})):
        raise InputError(f"{target}: no column {lacking[0]!r}")
    parts = _encoded(rows, names, form, options, line_end, encoding, f"the encoding of {target}", file)
    shutil.copyfile(target, aside)
    _write_after(aside, parts, line_end, encoding)


def _header(target: Path, form: str, delimiter: str, opener: Opener) -> list[str]:
    """The names of the columns as the rows are read: quotes are characters in TSV. Empty for JSONL, which has none."""
    if form == "jsonl":
        return []
    if form == "tsv":
        return next((line.split("\t") for _, line in lines(target, opener) if line), [])
    return delimiters.header(target, delimiter, opener)


def _encoded(
    rows: Mapping[str, Record], names: list[str], form: str, options: Params, line_end: str, encoding: str,
    whose: str, file: Path,
) -> list[bytes]:  # fmt: skip
    """The lines of new rows. Raises FindingsError for those that the encoding or the form cannot hold."""
    findings, parts = [], []
    for place, record in rows.items():
        try:
            parts.append((_line(record, names, form, options.delimiter) + line_end).encode(encoding))
        except UnicodeEncodeError as error:
            letter = shown(error.object[error.start : error.end])
            findings.append(f"{file}: {place}: {letter} is not in {options.encoding}, {whose}")
        except ValueError as error:
            findings.append(f"{file}: {place}: {error}")
    if findings:
        raise FindingsError(findings)
    return parts


def _write_after(aside: Path, parts: list[bytes], line_end: str, encoding: str) -> None:
    """Write lines at the end of a file, whose last line may lack its end."""
    with aside.open("r+b") as out:
        end = line_end[-1].encode(encoding)
        out.seek(-len(end), io.SEEK_END)
        if out.read() != end:
            out.write(line_end.encode(encoding))
        out.writelines(parts)


def _encoding(target: Path, name: str) -> str:
    """The encoding of bytes in the midst of a file, which begin with no byte order mark."""
    plain_name = codecs.lookup(name).name
    if plain_name == "utf-8-sig":
        return "utf-8"
    if plain_name != "utf-16":
        return plain_name
    with target.open("rb") as file:
        return "utf-16-be" if file.read(2) == codecs.BOM_UTF16_BE else "utf-16-le"


def _line(record: Record, names: list[str], form: str, delimiter: str) -> str:
    """A record as a line of the form, without its end."""
    if form == "jsonl":
        return json.dumps(record, ensure_ascii=False, default=str)
    cells = [_cell(record.get(name)) for name in names]
    if form == "tsv":
        if any(c in cell for cell in cells for c in "\t\r\n"):
            raise ValueError("a cell has a tab or a line end, which TSV cannot hold")
        return "\t".join(cells)
    text = io.StringIO()
    csv.writer(text, delimiter=delimiter, lineterminator="\r\n").writerow(cells)  # it quotes both
    return text.getvalue().removesuffix("\r\n")


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=False, default=str)
    return value.isoformat() if isinstance(value, datetime) else str(value)  # as cells of a workbook are read


def _json_list(target: Path, aside: Path, encoding: str, rows: Mapping[str, Record]) -> None:
    """Write the list of objects with more objects at its end."""
    with target.open(encoding=encoding, newline="") as file:
        before = file.read().rstrip().removesuffix("]").rstrip()
    with aside.open("w", encoding=encoding, newline="") as out:
        out.write(before)
        for record in rows.values():
            out.write(",\n" + json.dumps(record, ensure_ascii=True, default=str))
        out.write("\n]\n")


def _parquet(target: Path, aside: Path, rows: Mapping[str, Record], file: Path) -> None:
    """Write the table with more rows. Raises FindingsError for cells that its columns cannot hold."""
    schema = tables.open_parquet(target).schema_arrow
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    findings = []
    for place, record in rows.items():
        for column in schema:
            cell = record.get(column.name)
            try:
                columns[column.name].append(_value(cell, column.type))
            except (ValueError, TypeError, OverflowError, AttributeError, pa.ArrowException):
                findings.append(f"{file}: {place}: {column.name} is {shown(cell)}; {target} has {column.type} there")
    if findings:
        raise FindingsError(findings)
    added = pa.table([pa.array(columns[column.name], column.type) for column in schema], schema=schema)
    pq.write_table(pa.concat_tables([pq.read_table(target), added]), aside)


def _value(cell: Any, kind: pa.DataType) -> Any:
    """A cell for a column of the type. A text is read as what it writes: "600" is 600, and "" is no value.

    Raises an error of Arrow, or ValueError for what Arrow would change: "007", 1.5 as an integer, a text as a list.
    """
    if not isinstance(cell, str) or kind in (pa.string(), pa.large_string()) or pa.types.is_dictionary(kind):
        stored, value = pa.scalar(cell, kind), cell
    else:
        stored = pa.scalar(cell).cast(kind) if cell else pa.scalar(None, kind)
        value = stored.as_py()
    if stored.is_valid and (pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        number = stored.as_py()
        if number != cell and str(number).lower() != str(cell).lower():
            raise ValueError("another value")
    return value
