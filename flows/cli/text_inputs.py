"""The texts of a command: its arguments, a file (lines, CSV, TSV, JSONL, JSON, Parquet), or standard input."""

import sys
from pathlib import Path
from typing import Any

from pipelines.core import schema
from pipelines.core.errors import InputError, UsageError
from pipelines.data.formats import records

STDIN = "-"
LINES = ("txt", "text")  # suffixes of files with a row on each line
SEPARATOR = "\t"  # between the texts of a row on a line


def rows(kind: str, words: list[str], columns: dict[str, str]) -> list[dict[str, Any]]:
    """The rows of a command as dicts of the kind's input columns.

    Args:
        words: the arguments: texts, or a single file, or `-`; none: standard input, unless it is a terminal.
        columns: the names of a file's columns, by ours.
    """
    names = schema.INPUTS[kind]
    if not words and is_terminal():
        raise UsageError("there is no text; write one after the model, name a file, or pipe lines into the command")
    if words in ([], [STDIN]):
        # as a file is read: other characters that end a line, such as U+2028, stand in texts of the web
        lines = (line.rstrip("\r") for line in _stdin().removeprefix("\ufeff").split("\n"))
        return _of_lines(enumerate(lines, start=1), kind, "standard input")
    path = Path(words[0])
    if len(words) == 1 and _is_file(path):
        if columns or path.suffix.lstrip(".").lower() in records.FORMATS:
            listed = records.records(path, columns=[columns.get(name, name) for name in names])
            return [_row(record, kind, columns, f"{path}: {place}") for place, record in listed]
        return _of_lines(records.lines(path), kind, str(path))
    if len(words) == 1:
        _require_no_file_name(words[0])
    if columns:
        raise UsageError(f"{', '.join(columns)}: the names of columns need a file")
    return _of_words(kind, words, names)


def text(word: str) -> str:
    """The text that an argument is, or the whole text of the file that it names, or of standard input for `-`."""
    if word == STDIN:
        return _stdin()
    if not _is_file(path := Path(word)):
        _require_no_file_name(word)
        return word
    return "\n".join(line for _, line in records.lines(path))


def is_terminal() -> bool:
    """Return whether standard input is a terminal; it is None if whoever started the command has closed it."""
    return sys.stdin is not None and sys.stdin.isatty()


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except (OSError, ValueError):  # a long text is no path
        return False


def _require_no_file_name(word: str) -> None:
    """Raise UsageError for what is no text but the name of a file that is not there."""
    suffix = Path(word).suffix.lstrip(".").lower()
    if suffix in (*records.FORMATS, *LINES) and not any(map(str.isspace, word)):
        raise UsageError(f"{word}: no such file; a text of this form is read from standard input")


def _stdin() -> str:
    if sys.stdin is None:
        raise UsageError("standard input is closed; write a text, name a file, or pipe lines into the command")
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise InputError(f"standard input: byte {error.start} is not UTF-8; convert it to UTF-8") from None


def _of_lines(lines: Any, kind: str, where: str) -> list[dict[str, Any]]:
    """A row for each line that is not empty; its columns stand between tabs."""
    listed, names = [], schema.INPUTS[kind]
    for number, line in lines:
        fields = line.split(SEPARATOR) if len(names) > 1 else [line]
        if not line.strip():
            continue
        if kind == "regression" and len(fields) == 1:
            fields.append("")
        if len(fields) < len(names) or (len(fields) > len(names) and kind != "choice"):
            has = "" if len(fields) < len(names) else f"; it has {len(fields)} columns"
            expected = f"{' and '.join(names)} are expected, with a tab between them"
            raise InputError(f"{where}: line {number}: {expected}{has}")
        listed.append(_named(names, fields))
    return listed


def _of_words(kind: str, words: list[str], names: list[str]) -> list[dict[str, Any]]:
    """Rows from arguments: each a text; or one row of several texts."""
    if len(names) == 1:
        return [{names[0]: word} for word in words]
    if kind == "regression" and len(words) == 1:
        return [{"text": words[0], "text_pair": ""}]
    if len(words) < 2 or (kind != "choice" and len(words) > 2):
        what = "a text and its choices" if kind == "choice" else "two texts"
        raise UsageError(f"{len(words)} given; a model of kind {kind} takes {what}, or a file of rows")
    return [_named(names, words)]


def _named(names: list[str], fields: list[str]) -> dict[str, Any]:
    """A row of its fields; all fields after the first are choices, if the kind has them."""
    if "choices" in names:
        return {"text": fields[0], "choices": fields[1:]}
    return dict(zip(names, fields, strict=True))


def _row(record: dict[str, Any], kind: str, columns: dict[str, str], where: str) -> dict[str, Any]:
    """The input columns of a record; a regression may be on single texts."""
    row = {}
    for name in schema.INPUTS[kind]:
        column = columns.get(name, name)
        if kind == "regression" and name == "text_pair" and name not in columns and name not in record:
            row[name] = ""
            continue
        if column not in record:
            there_are = ", ".join(map(str, record))
            raise InputError(
                f"{where}: no column {column!r}; there are: {there_are}; name it with --column {name}=COLUMN"
            )
        row[name] = record[column]
    return row
