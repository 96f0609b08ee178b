"""Data frames in requests: JSON in the four forms of MLflow, and the check of their columns."""

from typing import Any

import pyarrow as pa

from pipelines.core import schema
from pipelines.core.errors import InputError, choices, shown

SPLIT, RECORDS, INPUTS, INSTANCES = "dataframe_split", "dataframe_records", "inputs", "instances"
FORMS = (SPLIT, RECORDS, INPUTS, INSTANCES)

Columns = dict[str, list[Any]]


def of_json(form: str, value: Any, inputs: list[str]) -> Columns:
    """The columns of a frame in one of FORMS. Raises InputError if it has another shape.

    Args:
        inputs: the columns that the model reads. A list of plain values is the only one of them.
    """
    if form == SPLIT:
        return _split(value)
    if form == RECORDS:
        return _records(form, value, inputs)
    if isinstance(value, dict):
        one_row = any(isinstance(value.get(name), str) for name in inputs)
        columns = {name: [cell] for name, cell in value.items()} if one_row else value
        if not all(isinstance(values, list) for values in columns.values()):
            raise InputError(f"{form}: the value of each column must be a list")
        return columns
    if isinstance(value, list) and len(inputs) == 1 and not any(isinstance(row, dict) for row in value):
        return {inputs[0]: value}
    return _records(form, value, inputs)


def _split(value: Any) -> Columns:
    """The columns of `{"columns": names, "data": rows, "index": ignored}`."""
    if not isinstance(value, dict) or not {"columns", "data"} <= set(value) <= {"columns", "data", "index"}:
        raise InputError(f"{SPLIT} must be an object with columns, data and, optionally, index")
    names, rows, index = value["columns"], value["data"], value.get("index")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise InputError(f"{SPLIT}.columns must be a list of names")
    require_distinct(names)
    if not isinstance(rows, list):
        raise InputError(f"{SPLIT}.data must be a list of rows")
    for number, row in enumerate(rows):
        if not isinstance(row, list) or len(row) != len(names):
            raise InputError(f"{SPLIT}.data: row {number} must be a list of {len(names)} values, one for each column")
    if index is not None and (not isinstance(index, list) or len(index) != len(rows)):
        raise InputError(f"{SPLIT}.index must have one entry for each row")
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def _records(form: str, rows: Any, inputs: list[str]) -> Columns:
    """The columns of a list of objects."""
    if not isinstance(rows, list):
        raise InputError(f"{form} must be a list of rows")
    if not rows:
        raise InputError(f"{form} has no rows, so it names no column; the model reads {', '.join(inputs)}")
    for number, row in enumerate(rows):
        if not isinstance(row, dict):
            raise InputError(f"{form}: row {number} must be an object with {', '.join(inputs)}")
        require_known(row, inputs)
        for name in inputs:
            if name not in row:
                raise InputError(f"{form}: row {number} has no {name!r}")
    return {name: [row[name] for row in rows] for name in inputs}


def check(columns: Columns, kind: str) -> None:
    """Raise InputError unless these are the columns that a model of `kind` reads, with values of their types."""
    inputs = schema.INPUTS[kind]
    require_known(columns, inputs)
    for name in inputs:
        if name not in columns:
            raise InputError(f"the column {name!r} is missing; the model reads {', '.join(inputs)}")
    lengths = sorted({len(values) for values in columns.values()})
    if len(lengths) > 1:
        raise InputError(f"the columns have different numbers of rows: {lengths[0]} and {lengths[-1]}")
    for name, values in columns.items():
        several = name in lists(kind)
        for number, value in enumerate(values):
            if not isinstance(value, list if several else str):
                raise InputError(f"{name}: row {number} is not {'a list of texts' if several else 'text'}")


def lists(kind: str) -> set[str]:
    """The columns whose values are lists of texts."""
    fields = schema.ROWS.get(kind, schema.ROWS["text"])  # an encoder reads texts
    return {name for name in schema.INPUTS[kind] if pa.types.is_list(fields.field(name).type)}


def require_known(names: Any, inputs: list[str]) -> None:
    """Raise InputError for the first name that the model does not read."""
    for name in names:
        if name not in inputs:
            raise InputError(choices("column", name, inputs))


def require_distinct(names: list[str]) -> None:
    """Raise InputError for the first name that occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"two columns are named {shown(name)}; rename one of them")
        seen.add(name)
