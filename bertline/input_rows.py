"""The rows that a model is asked about, from plain Python, a data frame or an Arrow table.

B rows are one Arrow table with the input columns of the model's kind (schema.INPUTS).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import pyarrow as pa

from pipelines.core import schema
from pipelines.core.characters import HALF
from pipelines.core.errors import InputError, UsageError, choices, shown
from pipelines.core.task import Task

FORMS = {
    "single": "a text, a list of texts, or a table with a column `text`",
    "pair": "two texts, two lists of texts, a list of pairs, or a table with the columns `text` and `text_pair`",
    "regression": "a text, two texts, lists of these, or a table with the columns `text` and `text_pair`",
    "span": "a question and its context, lists of these, or a table with the columns `question` and `context`",
    "tagging": "a text, a list of texts, lists of words, or a table with a column `text`",
    "choice": "a text and its choices, lists of these, or a table with the columns `text` and `choices`",
    "embedding": "a text, a list of texts, or a table with a column `text`",
}

LISTS = (  # Arrow's types of lists
    pa.types.is_list,
    pa.types.is_large_list,
    pa.types.is_fixed_size_list,
    pa.types.is_list_view,
    pa.types.is_large_list_view,
)
_TYPES = {name: pa.string() for names in schema.INPUTS.values() for name in names} | {"choices": pa.list_(pa.string())}


class InputRows(NamedTuple):
    """The table of rows, and whether the caller gave a single row and not a list of rows."""

    table: pa.Table
    single: bool


def rows(task: Task, inputs: Sequence[Any], columns: Mapping[str, str] | None = None) -> InputRows:
    """The rows in `inputs`, the arguments of a call. Raises InputError, with the row, for a value of a wrong type.

    Args:
        columns: the names in a table of the columns that the model takes; by default they are equal.
    """
    columns = columns or {}
    if unknown := sorted(columns.keys() - schema.INPUTS[task.kind]):
        raise UsageError(choices("input column", unknown[0], schema.INPUTS[task.kind]))
    if len(inputs) == 1 and (table := columns_of(inputs[0])) is not None:
        return InputRows(_of_table(table, task, columns), False)
    if columns:
        raise UsageError(f"{', '.join(columns)}: names of columns need a table")
    single, values = _values(task, inputs)
    arrays = [_array(name, values[name], task, name) for name in schema.INPUTS[task.kind]]
    return InputRows(pa.table(arrays, names=schema.INPUTS[task.kind]), single)


class GivenColumns(NamedTuple):
    """A table of the caller's: the names of its columns, and a function that returns the column at a position."""

    names: list[str]
    at: Callable[[int], Any]

    def column(self, name: str) -> Any:
        """The column of this name. Raises InputError if two have it."""
        if self.names.count(name) > 1:
            raise InputError(f"two columns are named {name!r}; rename one of them")
        return self.at(self.names.index(name))


def columns_of(argument: Any) -> GivenColumns | None:
    """The columns of Arrow's table, of a data frame, or of a list of dicts; None for anything else."""
    if isinstance(argument, pa.Table | pa.RecordBatch):
        return GivenColumns(argument.schema.names, argument.column)
    if hasattr(argument, "columns") and hasattr(argument, "__getitem__"):  # pandas, polars and others
        names = list(argument.columns)  # of pandas, whole numbers too
        return GivenColumns([str(name) for name in names], lambda position: list(argument[names[position]]))
    if isinstance(argument, Mapping):
        raise UsageError("a dict is one row; put it into a list")
    if isinstance(argument, list | tuple) and argument and isinstance(argument[0], Mapping):
        return _of_dicts(argument)
    return None


def _of_dicts(listed: Sequence[Any]) -> GivenColumns:
    """The columns of a list of dicts. Raises InputError for a row that is no dict."""
    for number, row in enumerate(listed):
        if not isinstance(row, Mapping):
            raise InputError(f"row {number} is {shown(row)}; a dict is expected, as row 0 is one")
    names = list(listed[0])
    return GivenColumns([str(name) for name in names], lambda position: [row.get(names[position]) for row in listed])


def _of_table(columns: GivenColumns, task: Task, names: Mapping[str, str]) -> pa.Table:
    """The input columns of a table. Raises InputError if one is missing, or holds anything but text."""
    arrays = []
    for name in schema.INPUTS[task.kind]:
        source = str(names.get(name, name))  # of a frame without a header a number, as in `columns_of`
        if source in columns.names:
            column = columns.column(source)
            arrays.append(_array(source, column, task, name) if isinstance(column, list) else _plain(column))
        elif task.kind == "regression" and name == "text_pair":
            arrays.append(pa.nulls(0, pa.string()) if not arrays else pa.array([""] * len(arrays[0]), pa.string()))
        else:
            hint = f'; name the column with {name}="..."' if source == name else ""
            raise InputError(f"{choices('column', source, columns.names)}{hint}")
    return pa.table(arrays, names=schema.INPUTS[task.kind])


def _plain(column: Any) -> Any:
    """A column of any of Arrow's types of text, or of lists of text, as plain ones; the predictor refuses others."""
    held = column.type
    if _is_text(held):
        target = pa.string()
    elif any(is_list(held) for is_list in LISTS) and _is_text(held.value_type):
        target = pa.list_(pa.string())
    else:
        return column
    if not (pa.types.is_list_view(held) or pa.types.is_large_list_view(held)):  # their cast leaves offsets out
        with suppress(pa.ArrowNotImplementedError):  # of categories of views, among others
            return column.cast(target)
    return pa.array(column.to_pylist(), target)


def _is_text(held: pa.DataType) -> bool:
    if pa.types.is_dictionary(held) or pa.types.is_run_end_encoded(held):
        return _is_text(held.value_type)
    return bool(pa.types.is_string(held) or pa.types.is_large_string(held) or pa.types.is_string_view(held))


def _values(task: Task, inputs: Sequence[Any]) -> tuple[bool, dict[str, list[Any]]]:
    """Return whether there is a single row, and the values of each input column, from the arguments of a call."""
    names = schema.INPUTS[task.kind]
    if not 1 <= len(inputs) <= len(names):
        raise UsageError(f"{len(inputs)} arguments; a model of kind {task.kind} takes {FORMS[task.kind]}")
    inputs = [listed(argument) for argument in inputs]
    if len(names) == 1:
        return _texts(task, inputs[0])
    if len(inputs) == 1:
        return _tuples(task, inputs[0], names)
    return _of_arguments(task, inputs, names)


def listed(argument: Any) -> Any:
    """Arrow's and numpy's arrays and pandas' series as lists; all else as it is."""
    if isinstance(argument, str | list | tuple):
        return argument
    for method in ("to_pylist", "tolist"):
        if hasattr(argument, method):
            return getattr(argument, method)()
    return argument


def _texts(task: Task, argument: Any) -> tuple[bool, dict[str, list[Any]]]:
    """Texts of a kind with one input column; words of a text are joined as the task's units are."""
    if isinstance(argument, str):
        return True, {"text": [argument]}
    if not isinstance(argument, list | tuple):
        raise UsageError(f"{shown(argument)}: a model of kind {task.kind} takes {FORMS[task.kind]}")
    between = "" if task.units == "characters" else " "
    rows = map(listed, argument) if task.kind == "tagging" else argument
    joined = [between.join(row) if _words(row) and task.kind == "tagging" else row for row in rows]
    return False, {"text": joined}


def _words(row: Any) -> bool:
    return isinstance(row, list | tuple) and all(isinstance(word, str) for word in row)


def _tuples(task: Task, argument: Any, names: list[str]) -> tuple[bool, dict[str, list[Any]]]:
    """Rows as tuples of their columns; of a regression, also texts alone."""
    if isinstance(argument, str) and task.kind == "regression":
        return True, {"text": [argument], "text_pair": [""]}
    if not isinstance(argument, list | tuple):
        raise UsageError(f"{shown(argument)}: a model of kind {task.kind} takes {FORMS[task.kind]}")
    single = isinstance(argument, tuple) and len(argument) == len(names) and isinstance(argument[0], str)
    tuples = [argument] if single else argument
    values: dict[str, list[Any]] = {name: [] for name in names}
    for number, row in enumerate(map(listed, tuples)):
        if isinstance(row, str) and task.kind == "regression":
            row = (row, "")
        if not isinstance(row, list | tuple) or len(row) != len(names):
            raise InputError(f"row {number} is {shown(row)}; a model of kind {task.kind} takes {FORMS[task.kind]}")
        for name, value in zip(names, row, strict=True):
            values[name].append(value)
    return single, values


def _of_arguments(task: Task, inputs: Sequence[Any], names: list[str]) -> tuple[bool, dict[str, list[Any]]]:
    """Columns as arguments; a text beside a list belongs to every row."""
    alone = [
        isinstance(value, str) or (name == "choices" and _words(value))
        for name, value in zip(names, inputs, strict=True)
    ]
    if all(alone):
        return True, {name: [value] for name, value in zip(names, inputs, strict=True)}
    for value, is_alone in zip(inputs, alone, strict=True):
        if not is_alone and not isinstance(value, list | tuple):
            raise UsageError(f"{shown(value)}: a model of kind {task.kind} takes {FORMS[task.kind]}")
    counts = {len(value) for value, is_alone in zip(inputs, alone, strict=True) if not is_alone}
    if len(counts) > 1:
        lengths = " and ".join(f"{name} has {len(value)}" for name, value in zip(names, inputs, strict=True))
        raise InputError(f"the lists differ in their rows: {lengths}")
    (count,) = counts
    return False, {
        name: [value] * count if is_alone else list(value)
        for name, value, is_alone in zip(names, inputs, alone, strict=True)
    }


def _array(shown_as: str, values: list[Any], task: Task, name: str) -> pa.Array:
    """A column of texts, or of lists of choices. Raises InputError for the first value that is none."""
    several = name == "choices"
    values = [listed(value) for value in values] if several else values
    expected = f"a list of {len(task.labels)} texts" if several else "text"
    for number, value in enumerate(values):
        if missing(value):
            raise InputError(f"{shown_as}: row {number} is empty; {expected} is expected")
        if not (_words(value) and len(value) == len(task.labels) if several else isinstance(value, str)):
            raise InputError(f"{shown_as}: row {number} is {shown(value)}; {expected} is expected")
    try:
        return pa.array([list(value) for value in values] if several else values, _TYPES[name])
    except UnicodeEncodeError:
        raise InputError(f"{shown_as}: a text holds {HALF}") from None


def missing(value: Any) -> bool:
    """Return whether it is None, or NaN or NA of pandas."""
    return (
        value is None or type(value).__name__ in ("NAType", "NaTType") or (isinstance(value, float) and value != value)
    )
