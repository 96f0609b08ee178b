"""Bad rows: the stable codes of their errors, and the files of _quarantine/, which name each of them."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pipelines.core import json_file
from pipelines.core.errors import InputError, UsageError

FOLDER = "_quarantine"
MAX_RAW = 1000  # characters of the raw value in the quarantine
# code -> the sentence of it; the codes are stable, since other programs count them
CODES = {
    "null_value": "the column {column!r} has no value",
    "wrong_type": "the column {column!r} does not hold {expected}",
    "wrong_choices": "the column {column!r} has {count} choices or a null among them; {expected} are expected",
    "too_long": "the column {column!r} has {count:,} characters; the limit is {expected:,}",
    "not_utf8": "a text is not UTF-8",
    "not_json": "the line is not a JSON object: {reason}",
    "not_csv": "the line is not CSV: {reason}",
    "wrong_fields": "the line has {count} fields; the header has {expected}",
    "line_too_long": "the line has more than {expected} MiB",
}


@dataclass(frozen=True)
class Bad:
    """A row that cannot be scored: its number in its partition, a code, a sentence, and its raw value, cut."""

    row: int
    code: str
    sentence: str
    raw: str
    cut: bool = False

    @classmethod
    def of(cls, row: int, code: str, raw: object, **facts: Any) -> "Bad":
        """A bad row; `facts` fill the code's sentence."""
        text = raw if isinstance(raw, str) else shown_bytes(raw) if isinstance(raw, bytes) else repr(raw)
        text = text.encode("utf-8", "backslashreplace").decode()
        return cls(row, code, CODES[code].format(**facts), text[:MAX_RAW], len(text) > MAX_RAW)


def shown_bytes(raw: bytes) -> str:
    """The text of a line; bytes that are not UTF-8 are written as \\xff."""
    return raw[: 4 * MAX_RAW + 4].decode("utf-8", "backslashreplace").rstrip("\r\n")


def place(source: str) -> str:
    """The path of a partition's bad rows, relative to the job's folder."""
    return f"{FOLDER}/{source}.jsonl"


def line(source: str, bad: Bad) -> str:
    """A bad row as a line of JSON."""
    return json.dumps({"source": source} | vars(bad), ensure_ascii=False) + "\n"


def read(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a quarantine file; blank lines are none. Raises InputError for another one."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            try:
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError:
                raise InputError(f"{path}: line {number}: it is not UTF-8; save the file as UTF-8") from None
            if not text.strip():
                continue
            try:
                content = json_file.parsed(text)
                whole = type(content["row"]) is int and isinstance(content["source"], str)
            except (ValueError, TypeError, KeyError, RecursionError):
                whole = False
            if not whole:
                raise InputError(f"{path}: line {number}: an object with source and row is expected")
            yield content


@dataclass(frozen=True)
class Limit:
    """The most bad rows that a job accepts: a number of rows, or a share of all rows."""

    text: str

    def __post_init__(self) -> None:
        number = self.text.removesuffix("%")
        try:
            fits = 0 <= float(number) <= 100 if self.text.endswith("%") else int(number) >= 0
        except ValueError:
            fits = False
        if not fits:
            raise UsageError(f"--max-bad {self.text}: a share such as 1% or a number of rows such as 100 is expected")

    def allows(self, bad: int, rows: int) -> bool:
        """Return whether so many bad rows of all rows are within the limit."""
        if self.text.endswith("%"):
            return bad * 100 <= float(self.text.removesuffix("%")) * rows
        return bad <= int(self.text)
