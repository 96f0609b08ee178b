"""custom: a corpus of your own, from files and column names; no code, an entry in params.yaml."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from pipelines.core.errors import InputError, UsageError, choices
from pipelines.core.fetch import Source
from pipelines.core.params import Section
from pipelines.core.schema import INPUTS
from pipelines.core.task import Task
from pipelines.data.records import records

SOURCES: dict[str, list[Source]] = {}  # nothing to fetch: prepare.source is a path of your own
TASKS: dict[str, Task] = {}  # the entry says what the task is


class Params(Section):
    """What the files hold. `columns` maps text, text_pair, label and id to the names that the files use."""

    kind: Literal["single", "pair", "text"] = "single"
    files: Annotated[dict[str, str], Field(min_length=1)]  # split -> file below `source` ("" where that is the file)
    format: Literal["", "csv", "tsv", "jsonl", "parquet"] = ""  # "": by the file's suffix
    columns: dict[Literal["id", "text", "text_pair", "label"], str] = {}
    labels: list[str] = []  # in the order of their ids; empty: those of the first split, sorted
    label_names: dict[str, str] = {}  # what the files write -> the label
    metric: Literal["accuracy", "macro_f1", "matthews"] = "accuracy"
    language: str = ""


def task(raw: Path, name: str, params: Params) -> Task:
    """The task that `params` describes; labels that are not given are those of the first split."""
    splits = tuple(params.files)
    if params.kind == "text":
        return Task("custom", "text", splits=splits, language=params.language)
    labels = params.labels or sorted({_label(params, at, r) for at, r in _records(raw, splits[0], params)} - {None})
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
            value = record[params.columns.get(name, name)]
            if not isinstance(value, str):
                raise InputError(f"{path}: {at}: {name} is {value!r}; a text is expected")
            row[name] = value
        if params.kind != "text":
            row["label"] = _label(params, at, record)
            if row["label"] is not None and row["label"] not in task.labels:
                raise InputError(f"{path}: {at}: {choices('label', row['label'], task.labels)}")
        yield row


def verify(raw: Path, edition: str) -> None:
    raise UsageError("params.yaml: ingest: a custom corpus is read where it lies; name its path in prepare.source")


def _path(raw: Path, split: str, params: Params) -> Path:
    return raw if raw.is_file() else raw / params.files[split]


def _records(raw: Path, split: str, params: Params) -> Iterator[tuple[str, dict[str, Any]]]:
    """Records that have every column that `params` names; only the label may be missing, in an unlabelled split."""
    path, some = _path(raw, split, params), False
    for at, record in records(path, params.format):
        if not some:
            wanted = [params.columns.get(n, n) for n in INPUTS[params.kind]]
            wanted += [params.columns[n] for n in ("id",) if n in params.columns]  # type: ignore[index]
            for name in wanted:
                if name not in record:
                    raise InputError(f"{path}: {choices('column', name, record)}")
            if (
                "label" in params.columns
                and params.columns["label"] not in record
                and split == next(iter(params.files))
            ):
                raise InputError(f"{path}: {choices('column', params.columns['label'], record)}")
        some = True
        yield at, record
    if not some:
        raise InputError(f"{path}: a header and no rows")


def _label(params: Params, at: str, record: dict[str, Any]) -> str | None:
    """The row's label as a name; None where the split has none."""
    value = record.get(params.columns.get("label", "label"))
    return None if value is None or value == "" else params.label_names.get(str(value), str(value))
