"""custom: a corpus of your own, described by files and column names in params.yaml, without code."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from pipelines.core.errors import InputError, UsageError, choices
from pipelines.core.schema import INPUTS, METRICS, ROWS, TARGETS
from pipelines.core.section import Section
from pipelines.core.task import Task
from pipelines.data import declared
from pipelines.data.formats import conll, folders
from pipelines.data.formats.records import Record, records
from pipelines.data.formats.squad_json import questions
from pipelines.data.sources import Source

SOURCES: dict[str, list[Source]] = {}  # nothing to fetch: prepare.source is a path of your own
TASKS: dict[str, Task] = {}  # the entry says what the task is
COLUMNS = sorted({name for schema in ROWS.values() for name in schema.names})


class Params(Section):
    """What the files hold. `columns` maps our names (text, text_pair, label, id, ...) to those that the files use."""

    kind: Literal["single", "pair", "regression", "span", "tagging", "choice", "text", "positive_pair"] = "single"
    files: Annotated[dict[str, str], Field(min_length=1)]  # split -> file below `source` ("" if that is the file)
    format: Literal["", "csv", "tsv", "jsonl", "parquet", "squad", "conll", "folder"] = ""  # "": by the file's suffix
    columns: dict[str, str] = {}
    choice_columns: list[str] = []  # kind choice: the columns, if each choice has its own
    labels: list[str] = []  # in the order of their ids; empty: those of `first`, sorted
    label_names: dict[str, str] = {}  # what the files write -> the label
    metric: str = ""  # empty: the kind's usual one
    language: str = ""
    unanswerable: bool = False  # kind span: whether some questions have no answer in their context
    units: Literal["words", "characters"] = "words"  # kind tagging: what carries a tag

    @property
    def first(self) -> str:
        """The split that defines the labels: train, or the first one if there is no train."""
        return "train" if "train" in self.files else next(iter(self.files))

    @field_validator("columns")
    @classmethod
    def _known(cls, columns: dict[str, str]) -> dict[str, str]:
        for name in columns:
            if name not in COLUMNS:
                raise ValueError(choices("column", name, COLUMNS))
        return columns


def task(raw: Path, name: str, params: Params) -> Task:
    """The task that `params` describes; if it gives no labels, they are those of the training split."""
    for form, kinds in {"squad": ("span",), "conll": ("tagging",), "folder": ("single", "text")}.items():
        if params.format == form and params.kind not in kinds:
            raise UsageError(f"params.yaml: format {form} holds kind {' or '.join(kinds)}, not {params.kind}")
    metric, splits = _metric(params), tuple(params.files)
    if params.kind in ("text", "positive_pair", "span", "regression"):
        return Task("custom", params.kind, (), metric, splits, params.language, unanswerable=params.unanswerable)
    labels = params.labels or _labels(raw, params.first, params)
    if len(labels) < (1 if params.kind == "tagging" else 2):
        raise InputError(f"{_path(raw, params.first, params)}: {len(labels)} labels in all; a classifier needs two")
    if metric == "f1" and len(labels) != 2 and params.kind != "tagging":
        raise UsageError(
            f"params.yaml: metric f1 is of the second of two labels; there are {len(labels)}: take macro_f1"
        )
    return Task("custom", params.kind, tuple(labels), metric, splits, params.language, params.units)


def _metric(params: Params) -> str:
    """The metric that ranks models of the kind; text has none."""
    known = METRICS.get(params.kind, ("",))
    if params.metric and params.metric not in known:
        raise UsageError(f"params.yaml: {choices(f'metric of kind {params.kind}', params.metric, known)}")
    return params.metric or known[0]


def parse(raw: Path, task: Task, split: str, params: Params) -> Iterator[dict[str, Any]]:
    """Rows of one split. Raises InputError for a repeated id, a cell of the wrong type, or an unknown label."""
    path, seen = _path(raw, split, params), set()
    for at, row in _rows(raw, split, params):
        if row["id"] in seen:
            raise InputError(f"{path}: {at}: the id {row['id']!r} occurs twice")
        seen.add(row["id"])
        found = row.get("entities") if params.kind == "tagging" else [{"label": row.get("label")}]
        for label in [entity["label"] for entity in found or []] if task.labels else []:
            if label is not None and label not in task.labels:
                raise InputError(f"{path}: {at}: {choices('label', label, task.labels)}")
        yield row
    if not seen:
        raise InputError(f"{path}: no rows in it")


def verify(raw: Path, edition: str) -> None:
    raise UsageError("params.yaml: ingest: a custom corpus is read where it lies; name its path in prepare.source")


def _path(raw: Path, split: str, params: Params) -> Path:
    return raw if raw.is_file() else raw / params.files[split]


def _rows(raw: Path, split: str, params: Params) -> Iterator[tuple[str, Record]]:
    """Rows with their places, from a file of any format; their labels are not checked yet."""
    path = _path(raw, split, params)
    if params.format == "squad":
        yield from ((f"id {row['id']}", row) for row in questions(path))
    elif params.format == "conll":
        for number, sentence in enumerate(conll.sentences(path)):
            yield sentence.place, conll.row(path, sentence, f"{split}-{number}")
    elif params.format == "folder":
        yield from folders.documents(path, params.kind == "single")
    else:
        number = -1
        labelled = split == params.first  # only other splits may lack labels
        for number, (at, record) in enumerate(records(path, params.format)):
            yield at, _row(path, at, record, f"{split}-{number}", params, labelled)
        if number < 0:
            raise InputError(f"{path}: a header but no rows")


def _row(path: Path, at: str, record: Record, row_id: str, params: Params, labelled: bool) -> Record:
    """A record of a table as a row of the entry's kind."""

    def get(name: str) -> Any:
        return declared.column(path, at, record, params.columns.get(name, name))

    row: Record = {"id": str(get("id")) if "id" in params.columns else row_id}
    for name in INPUTS[params.kind]:
        if name == "choices" and params.choice_columns:
            row[name] = [declared.column(path, at, record, column) for column in params.choice_columns]
        elif name == "text_pair" and params.kind == "regression" and "text_pair" not in params.columns:
            row[name] = ""  # a regression on single texts
        else:
            row[name] = get(name)
        wanted = isinstance(row[name], list) if name == "choices" else isinstance(row[name], str)
        if not wanted:
            raise InputError(
                f"{path}: {at}: {name} is {repr(row[name])[:60]}; "
                f"a {'list' if name == 'choices' else 'text'} is expected"
            )
    target = TARGETS.get(params.kind)
    if target:
        column = params.columns.get(target, target)
        value = get(target) if labelled else record.get(column)
        row[target] = _target(path, at, value, params)
    return row


def _target(path: Path, at: str, value: Any, params: Params) -> Any:
    """The target in the form of the schema; None if the split has none."""
    if value is None or value == "":
        return None
    if params.kind == "regression":
        return declared.number(path, at, value)
    if params.kind not in ("span", "tagging"):
        return params.label_names.get(str(value), str(value))
    keys = {"span": ("text", "start"), "tagging": ("start", "end", "label")}[params.kind]
    if not isinstance(value, list) or any(not isinstance(item, dict) or set(keys) - set(item) for item in value):
        raise InputError(f"{path}: {at}: {TARGETS[params.kind]} must be a list of objects with {', '.join(keys)}")
    return [{key: item[key] for key in keys} for item in value]


def _labels(raw: Path, split: str, params: Params) -> list[str]:
    """The distinct labels of a split, sorted; a choice's are the numbers of its choices."""
    found: set[str | None] = set()
    for _, row in _rows(raw, split, params):
        if params.kind == "choice":
            return [str(number) for number in range(len(row["choices"]))]
        found |= {e["label"] for e in row["entities"] or []} if params.kind == "tagging" else {row["label"]}
    return sorted(label for label in found if label is not None)
