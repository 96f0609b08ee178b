"""The rows of a training from a table: their kind, their labels, and the rows to score the model on."""

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import date
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from bertline import input_rows
from pipelines.core import characters, schema, seeding
from pipelines.core.errors import InputError, UsageError, choices, shown
from pipelines.core.task import Task
from pipelines.inference import predictor

KINDS = ("single", "pair", "regression")
OTHERS = {  # kind -> how a model of it is trained
    "span": "write the questions as SQuAD's JSON, then `bertline new FILE` and `bertline run`",
    "tagging": "write the rows in CoNLL's columns, then `bertline new FILE` and `bertline run`",
    "choice": "write the rows as a table and their entries by hand (docs/adding.md), then `bertline run`",
}
LEAST = 2  # rows of a split
NAMED: Any = (str, bool, np.bool_, Real, Decimal, date, np.datetime64)  # types of labels that are names
WHOLE = re.compile(r"-?\d+")


class Columns(NamedTuple):
    """The names of a table's columns; without `text_pair` the rows are single texts."""

    text: str
    label: str
    text_pair: str = ""


def read(frame: Any, columns: Columns, kind: str, dev: Any, seed: int) -> tuple[Task, dict[str, pa.Table]]:
    """The task and its splits (schema.ROWS). Raises InputError, with the row, for a value that is wrong.

    Args:
        dev: the share of the rows to score the model on, or a table of such rows, or 0 for none.
    """
    columns = Columns(*map(str, columns))  # a frame without a header has numbers for names
    with _about_dev():
        share = _share(dev)
    labels = _values(frame, columns.label)
    kind = kind or _kind(labels, columns)
    if kind in OTHERS:
        raise UsageError(f"train: kind {kind} is trained from a file: {OTHERS[kind]}")
    if kind not in KINDS:
        raise UsageError(choices("kind to train", kind, KINDS))
    if kind == "pair" and not columns.text_pair:
        raise UsageError('kind pair needs two texts: name the column of the second with text_pair="..."')
    table = _table(frame, columns, kind)
    names = _labels(table, columns.label) if kind != "regression" else ()
    task = Task("frame", kind, names, schema.METRICS[kind][0], ("train",))
    splits = {"train": table}
    if share:
        splits = _split(table, share, seed, kind)
    elif share is None:
        with _about_dev():
            splits["dev"] = _table(dev, columns, kind)
            _require_known(splits["dev"], names)
    if splits["train"].num_rows < LEAST:
        raise InputError(f"there are {table.num_rows} rows; a training needs more")
    return task.with_(splits=tuple(splits)), splits


def _share(dev: Any) -> float | None:
    """The share of the rows to score the model on; None for a table of such rows."""
    if dev is None:
        return 0.0
    if isinstance(dev, Real) and 0 <= float(dev) < 1:
        return float(dev)
    if isinstance(dev, Real) or input_rows.columns_of(dev) is None:
        raise UsageError(f"{shown(dev)}; a share from 0 to 1 is expected, or a table")
    return None


@contextmanager
def _about_dev() -> Iterator[None]:
    """Begin the messages about the rows to score the model on with `dev`."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"dev: {error}") from None


def _values(frame: Any, name: str) -> list[Any]:
    """A column as a list of Python's values. Raises InputError if it is missing, or a value of it."""
    columns = input_rows.columns_of(frame)
    if columns is None:
        raise UsageError(f"{shown(frame)}: a data frame, an Arrow table or a list of dicts is expected")
    if name not in columns.names:
        raise InputError(f'{choices("column", name, columns.names)}; name the column with label="..."')
    values = input_rows.listed(columns.column(name))
    for number, value in enumerate(values):
        if input_rows.missing(value):
            raise InputError(f"{name}: row {number} is empty; remove the row, or give it a label")
    return values


def _kind(labels: list[Any], columns: Columns) -> str:
    """regression if a label has decimals, else pair or single."""
    if any(_is_real(label) and not float(label).is_integer() for label in labels):
        return "regression"
    return "pair" if columns.text_pair else "single"


def _is_real(label: Any) -> bool:
    """Return whether a label is of a type of numbers with decimals: of Python, of numpy, of the decimal module."""
    return isinstance(label, Real | Decimal) and not isinstance(label, Integral)


def _table(frame: Any, columns: Columns, kind: str) -> pa.Table:
    """The rows of a table (schema.ROWS), with their numbers as ids."""
    names = {"text": columns.text} | ({"text_pair": columns.text_pair} if columns.text_pair else {})
    task = Task("frame", kind)
    texts = predictor.inputs(input_rows.rows(task, (frame,), names).table, task)
    labels = _values(frame, columns.label)
    fields = schema.ROWS[kind]
    values = (
        [_number(label, i, columns.label) for i, label in enumerate(labels)]
        if kind == "regression"
        else [_name(label, i, columns.label) for i, label in enumerate(labels)]
    )
    label = pa.array(values, fields.field("label").type)
    return pa.table([label if name == "label" else texts.column(name) for name in fields.names], schema=fields)


def _name(label: Any, row: int, column: str) -> str:
    """The name of a label; 1.0, which pandas makes of 1 beside a missing value, is 1."""
    if not isinstance(label, NAMED):
        raise InputError(f"{column}: row {row} is {shown(label)}; a text, a number or a date is expected")
    if isinstance(label, str) and not characters.are_whole([label]):
        raise InputError(f"{column}: row {row} holds {characters.HALF}")
    return str(int(label)) if _is_real(label) and float(label).is_integer() else str(label)


def _number(label: Any, row: int, column: str) -> float:
    try:
        number = float(label)
    except (TypeError, ValueError):
        number = np.nan
    if not np.isfinite(number):
        raise InputError(f"{column}: row {row} is {shown(label)}; a number is expected")
    return number


def _labels(table: pa.Table, column: str) -> tuple[str, ...]:
    """The names of the labels, numbers in their order. Raises InputError if there is only one."""
    names = sorted(set(table.column("label").to_pylist()))
    if "" in names:
        raise InputError(f"{column}: row {table.column('label').to_pylist().index('')} has an empty label")
    if len(names) < 2:
        raise InputError(f"{column}: every row has the label {shown(names[0]) if names else 'none'}; two are needed")
    if all(WHOLE.fullmatch(name) for name in names):
        names.sort(key=int)
    return tuple(names)


def _require_known(dev: pa.Table, names: tuple[str, ...]) -> None:
    if not dev.num_rows:
        raise InputError("the table has no rows")
    for number, label in enumerate(dev.column("label").to_pylist()):
        if names and label not in names:
            raise InputError(f"row {number}: {choices('label', label, names)}")


def _split(table: pa.Table, share: float, seed: int, kind: str) -> dict[str, pa.Table]:
    """A share of each label's rows as `dev`, drawn with the seed; equal texts stay on one side."""
    random = np.random.default_rng(seeding.derive(seed, "dev"))
    order = random.permutation(table.num_rows)
    texts = table.column("text").to_pylist()
    labels = table.column("label").to_pylist() if kind != "regression" else [""] * table.num_rows
    wanted = {label: round(share * count) for label, count in Counter(labels).items()}
    most = sum(wanted.values())
    chosen: set[str] = set()
    counts: Counter[str] = Counter()
    rows_of: dict[str, Counter[str]] = {}  # text -> its rows of each label
    for text, label in zip(texts, labels, strict=True):
        rows_of.setdefault(text, Counter())[label] += 1
    for i in order.tolist():
        text, label = texts[i], labels[i]
        if text in chosen or counts[label] + rows_of[text][label] > wanted[label]:
            continue
        if counts.total() + rows_of[text].total() <= most:  # other labels of the text may pass their shares
            chosen.add(text)
            counts += rows_of[text]
    held_out = np.array([text in chosen for text in texts], bool)
    if held_out.sum() < LEAST:
        few = "rows are too few to score on" if most < LEAST else "rows cannot be held out: they share too few texts"
        raise InputError(f"dev: {share:g} of {table.num_rows} {few}; give dev a table, or 0")
    return {"train": table.filter(pa.array(~held_out)), "dev": table.filter(pa.array(held_out))}
