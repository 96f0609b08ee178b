"""Check files against what a corpus declares: columns, labels, numbers of rows."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pipelines.core.errors import InputError, choices
from pipelines.core.section import Section
from pipelines.core.task import Task
from pipelines.data import targets

Parse = Callable[[Path, Task, str, Any], Iterator[dict[str, Any]]]


class Nothing(Section):
    """The params of a corpus with nothing to choose."""


def chooser(tasks: Mapping[str, Task]) -> Callable[[Path, str, Any], Task]:
    """The function `task` of a corpus that lists all of its tasks in TASKS."""

    def task(raw: Path, name: str, params: Any) -> Task:
        """The task `name` of TASKS."""
        return tasks[name]

    return task


def check_rows(raw: Path, task: Task, rows: Mapping[str, int], parse: Parse, params: Any) -> None:
    """Count the rows of each split. Raises InputError if a number differs from the declared one."""
    for split, expected in rows.items():
        count = sum(1 for _ in parse(raw, task, split, params))
        if count != expected:
            raise InputError(f"{raw}: {task.name} has {count:,} rows in {split}, {expected:,} are declared")


def column(path: Path, at: str, record: Mapping[str, Any], name: str) -> Any:
    """The column `name` of a record. Raises InputError if it is missing; `at` is the record's place in the file."""
    if name not in record:
        raise InputError(f"{path}: {at}: {choices('column', name, record)}")
    return record[name]


def name_of(path: Path, at: str, value: str, labels: Sequence[str], by_number: bool = True) -> str:
    """The name of a label, from its number or (`by_number` False) its name. Raises InputError for any other value."""
    if not by_number:
        if value not in labels:
            raise InputError(f"{path}: {at}: {choices('label', value, labels)}")
        return value
    if not value.isdecimal() or int(value) >= len(labels):
        raise InputError(f"{path}: {at}: the label {value!r} is not a number from 0 to {len(labels) - 1}")
    return labels[int(value)]


def number(path: Path, at: str, value: Any) -> float:
    """`value` as a finite number. Raises InputError if it is not one."""
    try:
        return targets.number(value)
    except ValueError as error:
        raise InputError(f"{path}: {at}: {error}") from None
