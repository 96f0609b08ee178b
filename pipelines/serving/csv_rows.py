"""CSV in requests, such as `DataFrame.to_csv()` writes: a header, then rows of text."""

import csv
import io
from collections.abc import Iterator
from itertools import islice
from typing import Any

import orjson

from pipelines.core import schema
from pipelines.core.errors import InputError
from pipelines.data.formats import records
from pipelines.serving import frames, limits

INDEX = ""  # to_csv() writes the frame's index as the first column, without a name


def columns(body: bytes, kind: str) -> frames.Columns:
    """The columns of a CSV body, all cells as text; a list of texts is a JSON list. Raises InputError.

    At most as many rows are read as a request may have. Arrow's reader is not used: it makes a column of each name
    before the header can be checked, and a body may name millions.
    """
    try:
        text = body.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("the body is not UTF-8 text") from None
    lines = _lines(text)
    names = next(lines, None)
    if names is None:
        raise InputError("the body has no header; its first line must name the columns")
    first = 1 if names[0] == INDEX else 0
    frames.require_known(names[first:], schema.INPUTS[kind])
    frames.require_distinct(names)
    rows = list(islice(lines, limits.MAX_ROWS + 1))
    if len(rows) > limits.MAX_ROWS:
        raise InputError(f"over {limits.MAX_ROWS} rows; a request takes no more, and `bertline score` has no limit")
    for number, row in enumerate(rows):
        if len(row) != len(names):
            raise InputError(f"row {number} has {len(row)} values; the header names {len(names)} columns")
    lists = frames.lists(kind)
    return {
        name: [_list(name, number, row[place]) if name in lists else row[place] for number, row in enumerate(rows)]
        for place, name in enumerate(names)
        if place >= first
    }


def _lines(text: str) -> Iterator[list[str]]:
    """The lines that are not empty, as values. Raises InputError for a wrong quote."""
    csv.field_size_limit(records.MAX_LINE_BYTES)  # Python's default is 128 KiB; limits.py names the row of a long text
    try:
        yield from (values for values in csv.reader(io.StringIO(text, newline=""), strict=True) if values)
    except csv.Error as error:  # its message has no text of the body
        raise InputError(f"the body is not CSV: {error}") from None


def _list(name: str, number: int, cell: str) -> Any:
    """The list in a cell."""
    try:
        return orjson.loads(cell)
    except orjson.JSONDecodeError:
        raise InputError(f"{name}: row {number} is not a JSON list of texts") from None
