"""custom: a corpus of your own, from files and column names; no code, an entry in params.yaml."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from pipelines.core.errors import InputError, UsageError, choices
from pipelines.core.fetch import Source
from pipelines.core.params import Section
from pipelines.core.schema import INPUTS
from pipelines.core.task import Task
from pipelines.data.records import records

SOURCES: dict[str, list[Source]] = {}  # nothing to fetch: prepare.source is a path of your own
TASKS: dict[str, Task] = {}  # the entry says what the task is
COLUMNS = ("id", "text", "text_pair", "label")


class Params(Section):
    """What the files hold. `columns` maps text, text_pair, label and id to the names that the files use."""

    kind: Literal["single", "pair", "text"] = "single"
    files: Annotated[dict[str, str], Field(min_length=1)]  # split -> file below `source` ("" where that is the file)
    format: Literal["", "csv", "tsv", "jsonl", "parquet"] = ""  # "": by the file's suffix
    columns: dict[str, str] = {}
    labels: list[str] = []  # in the order of their ids; empty: those of the first split, sorted
    label_names: dict[str, str] = {}  # what the files write -> the label
    metric: Literal["accuracy", "macro_f1", "matthews"] = "accuracy"
    language: str = ""

    @field_validator("columns")
    @classmethod
    def _known(cls, columns: dict[str, str]) -> dict[str, str]:
        for name in columns:
            if name not in COLUMNS:
                raise ValueError(choices("column", name, COLUMNS))
        return columns


def task(raw: Path, name: str, params: Params) -> Task:
    """The task that `params` describes; labels that are not given are those of the first split."""
    splits = tuple(params.files)
    if params.kind == "text":
        return Task("custom", "text", splits=splits, language=params.language)
    labels = params.labels or _labels_of(raw, splits[0], params)
    if len(labels) < 2:
        raise InputError(f"{_path(raw, splits[0], params)}: {len(labels)} labels in all; a classifier needs two")
    return Task("custom", params.kind, tuple(labels), params.metric, splits, params.language)


def parse(raw: Path, task: Task, split: str, params: Params) -> Iterator[dict[str, Any]]:
    """Rows of one split. An id that stands twice, an empty cell where text belongs, a foreign label: one sentence."""
    path, seen = _path(raw, split, params), set()
    for number, (at, record) in enumerate(_records(raw, split, params)):
        row: dict[str, Any] = {
            "id": str(record[params.columns["id"]]) if "id" in params.columns else f"{split}-{number}"
        }
        if row["id"] in seen:
            raise InputError(f"{path}: {at}: the id {row['id']!r} stands twice")
        seen.add(row["id"])
        for name in INPUTS[params.kind]:
            value = record[_column(params, name)]
            if not isinstance(value, str):
                raise InputError(f"{path}: {at}: {name} is {value!r}; a text is expected")
            row[name] = value
        if params.kind != "text":
            row["label"] = _label(params, record)
            if row["label"] is not None and row["label"] not in task.labels:
                raise InputError(f"{path}: {at}: {choices('label', row['label'], task.labels)}")
        yield row


def verify(raw: Path, edition: str) -> None:
    raise UsageError("params.yaml: ingest: a custom corpus is read where it lies; name its path in prepare.source")


def _path(raw: Path, split: str, params: Params) -> Path:
    return raw if raw.is_file() else raw / params.files[split]


def _records(raw: Path, split: str, params: Params) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records that have every column that `params` names; only the label may be missing, in a later split."""
    path, count = _path(raw, split, params), 0
    wanted = [_column(params, name) for name in INPUTS[params.kind]]
    wanted += [params.columns["id"]] if "id" in params.columns else []
    wanted += [_column(params, "label")] if params.kind != "text" and split == next(iter(params.files)) else []
    for at, record in records(path, params.format):
        for name in wanted:
            if name not in record:
                raise InputError(f"{path}: {at}: {choices('column', name, record)}")
        count += 1
        yield at, record
    if not count:
        raise InputError(f"{path}: a header and no rows")


def _column(params: Params, name: str) -> str:
    """What the files call the column `name`."""
    return params.columns.get(name, name)


def _labels_of(raw: Path, split: str, params: Params) -> list[str]:
    """The distinct labels of a split, sorted."""
    found = {_label(params, record) for _, record in _records(raw, split, params)}
    return sorted(label for label in found if label is not None)


def _label(params: Params, record: dict[str, Any]) -> str | None:
    """The row's label as a name; None where the split has none."""
    value = record.get(_column(params, "label"))
    return None if value is None or value == "" else params.label_names.get(str(value), str(value))
