"""Read records of CSV, TSV, JSONL, JSON, Parquet and xlsx files one at a time; errors name the file and the line."""

import csv
import lzma
import zipfile
import zlib
from collections.abc import Callable, Collection, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from pipelines.core import json_file, tables
from pipelines.core.errors import InputError, NoFileError, UnreadableError, choices
from pipelines.data.formats import workbooks

Record = dict[str, Any]
Place = str  # "line 12", for errors
Opener = Callable[[Path], Any]  # a path to a binary file
Note = Callable[[InputError], None]  # what becomes of the error of one record
MAX_LINE_BYTES = 16 << 20
SAME = {"ndjson": "jsonl"}  # suffix -> the format that it is another name of
NOT_CSV = {  # part of a message of Python's csv -> what is wrong in the file
    "new-line character": "a line ends by CR alone; save the file with LF or CRLF at the end of lines",
    "expected after": 'a quote within quotes is written twice (""), and nothing stands behind the last one',
}


def plain(path: Path) -> BinaryIO:
    return path.open("rb")


def raise_it(error: InputError) -> None:
    raise error


def records(
    path: Path,
    form: str = "",
    columns: Collection[str] = (),
    opener: Opener = plain,
    delimiter: str = ",",
    note: Note = raise_it,
    sheet: str = "",
) -> Iterator[tuple[Place, Record]]:
    """The records of `path`; its format is `form` or, if that is empty, its suffix: one of FORMATS.

    If a Parquet file has all of `columns`, only these columns are read; without `columns`, all are. `note` takes the
    error of a single record, which is left out then. `delimiter` is that of CSV, `sheet` that of a workbook.
    """
    form = form or form_of_suffix(path)
    if form not in FORMATS:
        raise InputError(f"{path}: {choices('format', form, FORMATS)}")
    if not path.is_file():
        raise NoFileError(f"{path}: no such file")
    if not path.stat().st_size:
        raise InputError(f"{path}: the file is empty")
    if form == "parquet":
        yield from parquet(path, columns)
    elif form == "xlsx":
        yield from workbooks.records(path, sheet)
    elif form == "csv":
        yield from csv_(path, opener, delimiter, note)
    elif form == "tsv":
        yield from tsv(path, opener, note=note)
    elif form == "json":
        yield from json_list(path, opener, note)
    else:
        yield from jsonl(path, opener, note)


def form_of_suffix(path: Path) -> str:
    """The format that the suffix names."""
    suffix = path.suffix.lstrip(".").lower()
    return SAME.get(suffix, suffix)


def lines(path: Path, opener: Opener = plain) -> Iterator[tuple[int, str]]:
    """Numbered lines without line ends (LF or CRLF) and without a byte order mark.

    `opener` reads a compressed file (gzip.open, lzma.open, bz2.open) or a member of an archive.
    """
    offset = 0
    with opener(path) as file:
        for number, line in enumerate(_raw_lines(path, file), start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise UnreadableError(path, f"{path}: line {number}: byte {offset + error.start}") from None
            if "\0" in text:
                raise InputError(f"{path}: line {number}: a NUL byte; this is not a text file")
            offset += len(line)
            yield number, text.rstrip("\r\n")


def _raw_lines(path: Path, file: BinaryIO) -> Iterator[bytes]:
    """The file's lines. Raises InputError for a line that is too long, or a compressed file that is incomplete."""
    number = 0
    while True:
        number += 1
        try:
            line = file.readline(MAX_LINE_BYTES + 1)
        except (EOFError, OSError, lzma.LZMAError, zlib.error, zipfile.BadZipFile) as error:
            raise InputError(f"{path}: cannot be read to its end ({error}); fetch or write it again") from None
        if len(line) > MAX_LINE_BYTES:
            raise InputError(
                f"{path}: line {number} is longer than {MAX_LINE_BYTES >> 20} MiB; is this a file of lines?"
            )
        if not line:
            return
        yield line


def tsv(
    path: Path, opener: Opener = plain, header: Sequence[str] = (), note: Note = raise_it
) -> Iterator[tuple[Place, Record]]:
    """Records in GLUE's form: tabs, quotes as plain characters, a first line with names unless `header` has them."""
    names = list(header)
    for number, line in lines(path, opener):
        if not line and len(names) != 1:
            continue
        fields = line.split("\t")
        if not names:
            names = _distinct(path, fields)
            continue
        if len(fields) != len(names):
            note(InputError(f"{path}: line {number}: {len(fields)} fields, {len(names)} are expected"))
            continue
        yield f"line {number}", _record(path, number, names, fields)


def csv_(
    path: Path, opener: Opener = plain, delimiter: str = ",", note: Note = raise_it
) -> Iterator[tuple[Place, Record]]:
    """Records in the form of RFC 4180: a header, commas, and quoted fields that may hold commas and line ends."""
    csv.field_size_limit(MAX_LINE_BYTES)  # limit of a field, which may span many lines; Python's default is 128 KiB
    reader = csv.reader((f"{line}\n" for _, line in lines(path, opener)), delimiter=delimiter, strict=True)
    header: list[str] = []
    try:
        for fields in reader:
            if not header:
                header = _distinct(path, fields)
                continue
            if not fields:  # an empty line
                continue
            if len(fields) != len(header):
                place = f"{path}: line {reader.line_num}"
                note(InputError(f"{place}: {len(fields)} fields, the header has {len(header)}"))
                continue
            yield f"line {reader.line_num}", _record(path, reader.line_num, header, fields)
    except csv.Error as error:
        why = next((why for part, why in NOT_CSV.items() if part in str(error)), error)
        raise InputError(f"{path}: line {reader.line_num}: not CSV: {why}") from None


def _distinct(path: Path, names: list[str]) -> list[str]:
    """The names of columns. Raises InputError if two are equal, since a name must select one column.

    Several may have none, as Excel leaves them behind the others; `_record` has their cells empty.
    """
    for name in filter(None, names):
        if names.count(name) > 1:
            raise InputError(f"{path}: two columns are named {name!r}; rename one of them")
    return names


def _record(path: Path, number: int, names: list[str], cells: list[str]) -> Record:
    """The cells by their names. Raises InputError for a cell of one of several columns without a name."""
    record = dict(zip(names, cells, strict=True))
    if len(record) == len(names):
        return record
    for at, (name, cell) in enumerate(zip(names, cells, strict=True), start=1):
        if cell and not name:
            raise InputError(f"{path}: line {number}: column {at} has cells and no name; name it, or remove it")
    del record[""]
    return record


def jsonl(path: Path, opener: Opener = plain, note: Note = raise_it) -> Iterator[tuple[Place, Record]]:
    for number, line in lines(path, opener):
        if not line.strip():
            continue
        try:
            record = json_file.parsed(line)
        except (ValueError, RecursionError) as error:
            note(InputError(f"{path}: line {number}: not JSON: {error}"))
            continue
        if not isinstance(record, dict):
            note(InputError(f"{path}: line {number}: a JSON object is expected, this is {type(record).__name__}"))
            continue
        yield f"line {number}", record


def json_list(path: Path, opener: Opener = plain, note: Note = raise_it) -> Iterator[tuple[Place, Record]]:
    """Records of one JSON list of objects, as many programs export them; the whole file is in memory."""
    with opener(path) as file:
        content = json_file.decoded(path, b"".join(iter(lambda: file.readline(MAX_LINE_BYTES), b"")))
    if not isinstance(content, list):
        raise InputError(f"{path}: a list of objects is expected, this is {type(content).__name__}")
    for number, record in enumerate(content, start=1):
        if isinstance(record, dict):
            yield f"item {number}", record
        else:
            note(InputError(f"{path}: item {number}: a JSON object is expected, this is {type(record).__name__}"))


def parquet(path: Path, columns: Collection[str] = ()) -> Iterator[tuple[Place, Record]]:
    names = tables.open_parquet(path).schema_arrow.names
    chosen = [name for name in names if name in columns] if columns and {*columns} <= {*names} else names
    number = 0
    for batch in tables.read_batches(path, chosen):
        for record in tables.rows(batch, path):
            number += 1
            yield f"row {number}", record


FORMATS = ("csv", "tsv", "jsonl", "json", "parquet", "xlsx")
