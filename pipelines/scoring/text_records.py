"""The records of CSV and JSONL files one at a time; a line that is damaged is a bad row, and does not stop the others.

Memory is bounded by MAX_LINE_BYTES, however long a line is. Blank lines are no rows.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from pipelines.core import hashed_file, json_file
from pipelines.core.errors import InputError, one_line, shown
from pipelines.core.hashed_file import Hash
from pipelines.scoring.quarantine import MAX_RAW, Bad

MAX_LINE_BYTES = 16 << 20
KEPT_BYTES = 4 * MAX_RAW  # of a line that is not scored


@dataclass
class Record:
    """A row of a text file: its number, its values by column, the first bytes of its line, and the line's size."""

    row: int
    values: dict[str, Any]
    raw: bytes
    size_bytes: int


def jsonl(path: Path, hashing: Hash) -> Iterator[Record | Bad]:
    """The objects of a file with one JSON object a line; `hashing` gets its bytes."""
    row = 0
    with hashed_file.opened(path, hashing) as file:
        for line, long in _lines(file):
            if not line.strip():
                continue
            yield Bad.of(row, "line_too_long", line, expected=MAX_LINE_BYTES >> 20) if long else _parsed(row, line)
            row += 1


def _parsed(row: int, line: bytes) -> Record | Bad:
    """The record of a line of JSON, or the bad row."""
    try:
        text = line.decode("utf-8-sig" if row == 0 else "utf-8")
        values = json_file.parsed(text)
        if b"\\ud" in line.lower():  # half of a surrogate pair is no character, and JSON can write one
            _require_characters(values)
    except UnicodeError:
        return Bad.of(row, "not_utf8", line)
    except (ValueError, RecursionError) as error:
        return Bad.of(row, "not_json", line, reason=one_line(error))
    if not isinstance(values, dict):
        return Bad.of(row, "not_json", line, reason=f"it is {shown(values)}")
    return Record(row, values, line[:KEPT_BYTES], len(line))


def _require_characters(value: Any) -> None:
    """Raise UnicodeError if a text at any depth holds half of a surrogate pair."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, list):
        for inner in value:
            _require_characters(inner)
    elif isinstance(value, dict):
        for name, inner in value.items():
            name.encode()
            _require_characters(inner)


@dataclass
class _CsvLines:
    """The lines of a CSV file as text for csv.reader, with what it has read since its last record."""

    file: BinaryIO
    raw: bytes = b""
    size_bytes: int = 0
    too_long: bool = False
    first: bool = field(default=True)

    def __iter__(self) -> Iterator[str]:
        for line, long in _lines(self.file):
            self.raw = (self.raw + line[:KEPT_BYTES])[:KEPT_BYTES]
            self.size_bytes += len(line)
            self.too_long |= long
            code = "utf-8-sig" if self.first else "utf-8"
            self.first = False
            yield "too long\n" if long else line.decode(code, "surrogateescape")

    def taken(self) -> tuple[bytes, int, bool]:
        """The first bytes of the record that was read last, its size, and whether a line of it was too long."""
        result = (self.raw, self.size_bytes, self.too_long)
        self.raw, self.size_bytes, self.too_long = b"", 0, False
        return result


def csv_(path: Path, hashing: Hash) -> tuple[list[str], Iterator[Record | Bad]]:
    """The header and the records of a CSV file (RFC 4180); a file without a byte has no columns.

    `hashing` gets the bytes of the file while the records are read.

    A quote that is never closed ends where the field has MAX_LINE_BYTES, or the file ends: one bad row.
    """
    with path.open("rb") as file:
        lines = _CsvLines(file)
        try:
            header = next((fields for fields in csv.reader(lines, strict=True) if fields), [])
            "".join(header).encode()
        except (csv.Error, UnicodeError) as error:
            raise InputError(f"{path}: its first line is not a header of CSV in UTF-8 ({one_line(error)})") from None
    if len(set(header)) < len(header):
        name = next(name for place, name in enumerate(header) if name in header[:place])
        raise InputError(f"{path}: two columns are named {shown(name)}; rename one of them")
    return header, _csv_records(path, header, hashing)


def _csv_records(path: Path, header: list[str], hashing: Hash) -> Iterator[Record | Bad]:
    csv.field_size_limit(MAX_LINE_BYTES)
    with hashed_file.opened(path, hashing) as file:
        lines = _CsvLines(file)
        reader = csv.reader(lines, strict=True)
        next((fields for fields in reader if fields), None)
        lines.taken()
        row = 0
        while True:
            reason, fields = "", None
            try:
                fields = next(reader, None)
            except csv.Error as error:
                reason, fields = one_line(error), [""]
            raw, size, too_long = lines.taken()
            if fields is None:
                return
            if not fields:
                continue
            yield _csv_row(row, header, fields, raw, size, too_long, reason)
            row += 1


def _csv_row(
    row: int, header: list[str], fields: list[str], raw: bytes, size: int, too_long: bool, reason: str
) -> Record | Bad:
    if too_long:
        return Bad.of(row, "line_too_long", raw, expected=MAX_LINE_BYTES >> 20)
    if reason:
        return Bad.of(row, "not_csv", raw, reason=reason)
    if len(fields) != len(header):
        return Bad.of(row, "wrong_fields", raw, count=len(fields), expected=len(header))
    try:
        "".join(fields).encode()
    except UnicodeError:
        return Bad.of(row, "not_utf8", raw)
    return Record(row, dict(zip(header, fields, strict=True)), raw, size)


def _lines(file: BinaryIO) -> Iterator[tuple[bytes, bool]]:
    """The lines of a file, and whether each is too long; of a line that is too long, only its first bytes."""
    while line := file.readline(MAX_LINE_BYTES + 1):
        long = len(line) > MAX_LINE_BYTES
        rest = line
        while long and rest and not rest.endswith(b"\n"):
            rest = file.readline(MAX_LINE_BYTES)
        yield (line[:KEPT_BYTES] if long else line), long
