"""custom: a corpus of your own, described by files and column names in params.yaml, without code."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from pipelines.core.errors import InputError, UsageError, choices, shown
from pipelines.core.schema import INPUTS, METRICS, ROWS, TARGETS
from pipelines.core.section import Name, Section, Switch
from pipelines.core.task import Task
from pipelines.data import declared, targets
from pipelines.data.formats import conll, folders
from pipelines.data.formats.records import Record, records
from pipelines.data.formats.squad_json import questions
from pipelines.data.sources import Source

SOURCES: dict[str, list[Source]] = {}  # nothing to fetch: prepare.source is a path of your own
TASKS: dict[str, Task] = {}  # the entry defines the task
KINDS_OF = {  # option -> the kinds of rows that use it
    "choice_columns": ("choice",),
    "labels": ("single", "pair", "tagging", "choice"),
    "label_names": ("single", "pair", "tagging", "choice"),
    "unanswerable": ("span",),
    "normalization": ("span",),
    "units": ("tagging",),
}
FORMATS = {"squad": ("span",), "conll": ("tagging",), "folder": ("single", "text")}  # format -> its kinds
OF_TABLES = ("columns", "choice_columns", "label_names", "where")  # options of tables, not of the other formats
ROWS_PER_LABEL = 2  # fewer, with more than MANY_LABELS: the label column holds texts
MANY_LABELS = 20


class Params(Section):
    """The content of the files. `columns` maps our names (text, text_pair, label, id, ...) to those in the files."""

    kind: Literal["single", "pair", "regression", "span", "tagging", "choice", "text", "positive_pair"] = "single"
    files: Annotated[dict[Name, str], Field(min_length=1)]  # split -> file below `source` ("" if `source` is the file)
    format: Literal["", "csv", "tsv", "jsonl", "parquet", "squad", "conll", "folder"] = ""  # "": from the file's suffix
    columns: dict[str, str] = {}
    where: dict[Name, dict[str, str | int | bool]] = {}  # split -> {column of its file: value of the rows to take}
    choice_columns: list[str] = []  # kind choice: the columns of the choices, if there is one per choice
    labels: list[str] = []  # in the order of their ids; empty: the labels of the split `first`, sorted
    label_names: dict[str, str] = {}  # label in the files -> label of the task
    metric: str = ""  # empty: the kind's default
    language: str = ""
    unanswerable: Switch = False  # kind span: whether some questions have no answer in their context
    normalization: Literal["", "squad", "nfkc", "jglue", "jaquad"] = ""  # kind span: how answers are compared
    units: Literal["words", "characters"] = "words"  # kind tagging: units that carry a tag

    @property
    def first(self) -> str:
        """The split that defines the labels: train, or the first one if there is no train."""
        return "train" if "train" in self.files else next(iter(self.files))

    @model_validator(mode="after")
    def _useful(self) -> "Params":
        """Raise ValueError for options that have no effect, and for unknown columns, splits and repeated labels."""
        for option in sorted(self.model_fields_set & KINDS_OF.keys()):
            if self.kind not in KINDS_OF[option]:
                raise ValueError(f"{option}: has no effect on rows of kind {self.kind}; remove it")
        for option in sorted(self.model_fields_set & {*OF_TABLES}) if self.format in FORMATS else []:
            raise ValueError(f"{option}: the format {self.format} has no columns")
        for name in self.columns:
            if name not in ROWS[self.kind].names:
                raise ValueError(f"columns: {choices('column', name, ROWS[self.kind].names)}")
        for split in self.where:
            if split not in self.files:
                raise ValueError(f"where: {choices('split', split, self.files)}")
        if len(set(self.labels)) < len(self.labels) or "" in self.labels:
            raise ValueError("labels: one of them is empty or occurs twice")
        return self


def task(raw: Path, name: str, params: Params) -> Task:
    """The task that `params` describes; if it lists no labels, the labels of the split `first` are taken."""
    if params.kind not in FORMATS.get(params.format, (params.kind,)):
        held = " or ".join(FORMATS[params.format])
        raise UsageError(f"params.yaml: format {params.format} holds kind {held}, not {params.kind}")
    metric, splits = _metric(params), tuple(params.files)
    if params.kind in ("text", "positive_pair", "span", "regression"):
        task = Task("custom", params.kind, (), metric, splits, params.language, unanswerable=params.unanswerable)
        return task.with_(normalization=params.normalization)
    labels = params.labels or _labels(raw, params.first, params)
    if len(labels) < (1 if params.kind == "tagging" else 2):
        raise InputError(f"{_path(raw, params.first, params)}: {len(labels)} labels in all; a classifier needs two")
    if metric == "f1" and len(labels) != 2 and params.kind != "tagging":
        raise UsageError(
            f"params.yaml: metric f1 scores the second of two labels, but there are {len(labels)}; use macro_f1"
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
    path, ids = _path(raw, split, params), set()
    for at, row in _rows(raw, split, params):
        if row["id"] in ids:
            raise InputError(f"{path}: {at}: the id {row['id']!r} occurs twice")
        ids.add(row["id"])
        labelled = row.get("entities") if params.kind == "tagging" else [{"label": row.get("label")}]
        for label in [entity["label"] for entity in labelled or []] if task.labels else []:
            if label is not None and label not in task.labels:
                raise InputError(f"{path}: {at}: {choices('label', label, task.labels)}")
        if params.kind == "choice" and len(row["choices"]) != len(task.labels):
            raise InputError(f"{path}: {at}: {len(row['choices'])} choices; the task has {len(task.labels)}")
        if params.kind == "span" and row["answers"] == [] and not params.unanswerable:
            raise InputError(f"{path}: {at}: no answer; `unanswerable: true` says that questions may have none")
        yield row
    if not ids:
        raise InputError(f"{path}: no rows in it")


def first_row(raw: Path, split: str, params: Params) -> Record | None:
    """The first row of a split. Raises InputError if its file is missing or invalid, or lacks a column."""
    if not (path := _path(raw, split, params)).exists():
        raise InputError(f"{path}: no such file or folder")
    return next((row for _, row in _rows(raw, split, params)), None)


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
        yield from _rows_of_table(path, split, params)


def _rows_of_table(path: Path, split: str, params: Params) -> Iterator[tuple[str, Record]]:
    """The rows that `where` selects, numbered by their positions in the file."""
    conditions, number = params.where.get(split, {}), -1
    columns = [params.columns.get(name, name) for name in ROWS[params.kind].names if name != "id"]
    columns += [*filter(None, [params.columns.get("id")]), *params.choice_columns, *conditions]
    others: set[str] = set()
    any_taken = False
    for number, (at, record) in enumerate(records(path, params.format, columns)):
        cells = {name: str(declared.column(path, at, record, name)) for name in conditions}
        if cells == {name: str(value) for name, value in conditions.items()}:
            any_taken = True
            yield at, _row(path, at, record, f"{split}-{number}", params, split == params.first)
        elif not any_taken and len(others) < MANY_LABELS:
            others.add(", ".join(cells.values()))
    if number < 0:
        raise InputError(f"{path}: a header but no rows")
    if not any_taken:
        raise InputError(f"{path}: no row has {conditions}; there are {', '.join(sorted(others))}")


def _row(path: Path, at: str, record: Record, row_id: str, params: Params, labelled: bool) -> Record:
    """A record of a table as a row of the entry's kind. If not `labelled`, the target may be missing."""

    def get(name: str) -> Any:
        return declared.column(path, at, record, params.columns.get(name, name))

    identifier = get("id") if "id" in params.columns else row_id
    if not isinstance(identifier, str | int) or isinstance(identifier, bool) or identifier == "":
        raise InputError(f"{path}: {at}: the id is {shown(identifier)}; a text or a whole number is expected")
    row: Record = {"id": str(identifier)}
    for name in INPUTS[params.kind]:
        if name == "choices" and params.choice_columns:
            row[name] = [declared.column(path, at, record, column) for column in params.choice_columns]
        elif name == "text_pair" and params.kind == "regression" and not {"text_pair"} & {*params.columns, *record}:
            row[name] = ""  # a regression on single texts
        else:
            row[name] = get(name)
        _require_text(path, at, name, row[name])
    target = TARGETS.get(params.kind)
    if target:
        value = get(target) if labelled else record.get(params.columns.get(target, target))
        try:
            row[target] = None if value is None or value == "" else _target(value, row, params)
        except ValueError as error:
            raise InputError(f"{path}: {at}: {error}") from None
    return row


def _require_text(path: Path, at: str, name: str, value: Any) -> None:
    """Raise InputError unless `value` is a text, or for choices a list of texts."""
    several = name == "choices"
    texts = value if several and isinstance(value, list) else [value]
    if not all(isinstance(text, str) for text in texts) or (several and not isinstance(value, list)):
        expected = "a list of texts" if several else "a text"
        raise InputError(f"{path}: {at}: {name} is {shown(value)}; {expected} is expected")


def _target(value: Any, row: Record, params: Params) -> Any:
    """The target in the type of the schema. Raises ValueError if it cannot be converted."""
    if params.kind == "regression":
        return targets.number(value)
    if params.kind == "span":
        return targets.answers(value, row["context"])
    if params.kind == "tagging":
        entities = targets.entities(value, row["text"])
        return [{**entity, "label": params.label_names.get(entity["label"], entity["label"])} for entity in entities]
    return targets.label(value, params.label_names)


def _labels(raw: Path, split: str, params: Params) -> list[str]:
    """The distinct labels of a split, sorted; for kind choice, the numbers of the choices."""
    labels: set[str | None] = set()
    count = 0
    for _, row in _rows(raw, split, params):
        count += 1
        if params.kind == "choice":
            return [str(number) for number in range(len(row["choices"]))]
        labels |= {e["label"] for e in row["entities"] or []} if params.kind == "tagging" else {row["label"]}
    if params.kind != "tagging" and len(labels) > MANY_LABELS and count < ROWS_PER_LABEL * len(labels):
        raise InputError(
            f"{_path(raw, split, params)}: {len(labels):,} labels for {count:,} rows; is another column the label? "
            "`labels` can list them all"
        )
    return sorted(label for label in labels if label is not None)
