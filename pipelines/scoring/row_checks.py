"""Checks of rows before they are scored: columns of the wrong type are an error, values that are wrong are bad rows."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core import tables
from pipelines.core.errors import InputError, choices
from pipelines.core.task import Task
from pipelines.scoring import columns
from pipelines.scoring.quarantine import MAX_RAW, Bad


def require_columns(schema: pa.Schema, task: Task, text: bool = False) -> None:
    """Raise InputError unless the inputs of the task are among the columns, and hold text or lists of text.

    `text`: the columns are those of CSV, where a list is text too.
    """
    for name, wanted in columns.inputs(task.kind).items():
        if name not in schema.names:
            raise InputError(choices("column", name, schema.names))
        held = schema.field(name).type
        several = pa.types.is_list(wanted)
        inner = held.value_type if several and _is_list(held) else held
        if not _is_text(inner) or (several and not text and not _is_list(held)):
            expected = "lists of text are" if several else "text is"
            raise InputError(f"the column {name!r} holds {held}; {expected} expected")


def _is_text(kind: pa.DataType) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)


def _is_list(kind: pa.DataType) -> bool:
    return pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)


def without_broken_text(rows: pa.Table, numbers: np.ndarray, task: Task) -> tuple[pa.Table, np.ndarray, list[Bad]]:
    """The rows whose texts are UTF-8 in all columns, their numbers, and the others as bad rows."""
    if _is_valid(rows):
        return rows, numbers, []
    # one broken text of a dictionary would break every row; a slice would hold what is nested in its neighbours
    plain = _plain(rows)
    singles = [tables.taken(plain, np.array([i])) for i in range(len(plain))]
    good = np.array([_is_valid(single) for single in singles], bool)
    bad = [Bad.of(int(numbers[i]), "not_utf8", _raw(singles[i], task)) for i in np.flatnonzero(~good)]
    return tables.taken(plain, np.flatnonzero(good)).cast(rows.schema), numbers[good], bad


def has_broken_text(rows: pa.Table) -> bool:
    """Return whether a text in the rows is not UTF-8."""
    return not _is_valid(_plain(rows))


def _plain(rows: pa.Table) -> pa.Table:
    """The rows without dictionaries."""
    return rows.cast(pa.schema([field.with_type(_dense(field.type)) for field in rows.schema]))


def _is_valid(rows: pa.Table) -> bool:
    try:
        rows.combine_chunks().validate(full=True)
    except pa.ArrowInvalid:
        return False
    return True


def _dense(kind: pa.DataType) -> pa.DataType:
    """The type without dictionaries, at any depth."""
    if pa.types.is_dictionary(kind):
        return _dense(kind.value_type)
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_dense(field.type)) for field in kind])
    if pa.types.is_map(kind):
        return pa.map_(_dense(kind.key_type), kind.item_field.with_type(_dense(kind.item_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_dense(kind.value_type)), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_dense(kind.value_type)))
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_dense(kind.value_type)))
    return kind


def _raw(row: pa.Table, task: Task) -> bytes:
    """The bytes of the first input of one row that is text."""
    for name in columns.inputs(task.kind):
        column = row.column(name).combine_chunks()
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            binary = pa.binary() if pa.types.is_string(column.type) else pa.large_binary()
            return column.cast(binary)[0].as_py() or b""
    return b""


def inputs(rows: pa.Table, task: Task) -> pa.Table:
    """The inputs of the task in the types that the predictor reads."""
    arrays = {}
    for name, wanted in columns.inputs(task.kind).items():
        column = rows.column(name)
        arrays[name] = column if column.type == wanted else column.cast(wanted)
    return pa.table(arrays)


def faults(rows: pa.Table, numbers: np.ndarray, task: Task, longest: int) -> dict[int, Bad]:
    """The bad rows among `rows` (`inputs`) by their place in it: no value, too long, a wrong number of choices."""
    by_row: dict[int, Bad] = {}
    for name, kind in columns.inputs(task.kind).items():
        column = rows.column(name).combine_chunks()
        for i in _places(pc.is_null(column)):
            by_row.setdefault(i, Bad.of(int(numbers[i]), "null_value", "", column=name))
        if pa.types.is_list(kind):
            by_row = _faults_of_choices(column, name, numbers, len(task.labels), longest) | by_row
            continue
        lengths = pc.utf8_length(column)
        for i in _places(pc.greater(lengths, longest)):
            raw = column[i].as_py()[: MAX_RAW + 1]
            bad = Bad.of(int(numbers[i]), "too_long", raw, column=name, count=lengths[i].as_py(), expected=longest)
            by_row.setdefault(i, bad)
    return by_row


def _faults_of_choices(column: pa.Array, name: str, numbers: np.ndarray, count: int, longest: int) -> dict[int, Bad]:
    by_row = {}
    for i, options in enumerate(column.to_pylist()):
        if options is None:
            continue
        raw, row = repr([option and option[:MAX_RAW] for option in options[:MAX_RAW]]), int(numbers[i])
        if len(options) != count or None in options:
            by_row[i] = Bad.of(row, "wrong_choices", raw, column=name, count=len(options), expected=count)
        elif (size := sum(map(len, options))) > longest:
            by_row[i] = Bad.of(row, "too_long", raw, column=name, count=size, expected=longest)
    return by_row


def _places(mask: pa.Array) -> list[int]:
    """The places where a mask is true; null counts as false."""
    return np.flatnonzero(mask.fill_null(False).to_numpy(zero_copy_only=False)).tolist()
