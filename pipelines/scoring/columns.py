"""The columns of CSV and JSONL files as Arrow columns: the task's inputs, and others by the values that they hold.

All columns of CSV are text. A column of JSONL is text, bool, int64 or double if all its values are; a column with
others, or with several of these, is text that holds JSON.
"""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from pipelines.core.errors import InputError
from pipelines.core.schema import INPUTS, ROWS
from pipelines.scoring.quarantine import Bad
from pipelines.scoring.text_records import Record

MAX_COLUMNS = 20_000
EXACT = 2**53  # larger integers are not exact as a double
TYPES = {"text": pa.string(), "bool": pa.bool_(), "int64": pa.int64(), "double": pa.float64(), "json": pa.string()}
Forms = dict[str, str]  # column -> a key of TYPES; inputs of the task are not among them


def inputs(kind: str) -> dict[str, pa.DataType]:
    """The types of the inputs of a kind of rows: text, or lists of text."""
    return {name: ROWS[kind].field(name).type for name in INPUTS[kind]}


def _form(value: Any) -> str:
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int53" if abs(value) <= EXACT else "int64" if -(2**63) <= value < 2**63 else "json"
    return {str: "text", float: "double"}.get(type(value), "json")


def watched(records: Iterable[Record | Bad], seen: dict[str, set[str]], kind: str) -> Iterator[Record | Bad]:
    """The same records; `seen` collects the forms of the values of each column that is no input.

    Raises InputError if there are more than MAX_COLUMNS columns.
    """
    input_types = inputs(kind)
    for record in records:
        if isinstance(record, Record):
            for name, value in record.values.items():
                if name not in input_types:
                    forms = seen.setdefault(name, set())
                    if value is not None:
                        forms.add(_form(value))
            if len(seen) > MAX_COLUMNS:
                raise InputError(f"more than {MAX_COLUMNS:,} columns; is one of them a map of values?")
        yield record


def decided(seen: dict[str, set[str]]) -> Forms:
    """The form of each column, from the forms of all its values."""
    return {name: _decided(forms) for name, forms in seen.items()}


def _decided(forms: set[str]) -> str:
    if not forms:
        return "json"
    if len(forms) == 1:
        (one,) = forms
        return "int64" if one == "int53" else one
    if forms == {"int53", "int64"}:
        return "int64"
    return "double" if forms == {"int53", "double"} else "json"


def array(name: str, values: list[Any], forms: Forms) -> pa.Array:
    """A column that is no input, as the form that was decided for it."""
    form = forms[name]
    if form == "json":
        values = [None if value is None else json.dumps(value, ensure_ascii=False) for value in values]
    elif form == "double":
        values = [None if value is None else float(value) for value in values]
    return pa.array(values, TYPES[form])
