"""custom: a corpus of your own, described by files and column names in params.yaml, without code."""

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from pipelines.core.errors import InputError, UnreadableError, UsageError, choices
from pipelines.core.schema import METRICS, TARGETS
from pipelines.core.task import Task
from pipelines.data import own_tables, split_rows
from pipelines.data.findings import Findings
from pipelines.data.formats import conll, encodings, folders
from pipelines.data.formats.records import Record, plain
from pipelines.data.formats.squad_json import questions
from pipelines.data.own_params import FORMATS, Params
from pipelines.data.own_tables import Read
from pipelines.data.sources import Source

SOURCES: dict[str, list[Source]] = {}  # nothing to fetch: prepare.source is a path of your own
TASKS: dict[str, Task] = {}  # the entry defines the task
ROWS_PER_LABEL = 2  # fewer, with more than MANY_LABELS: the label column holds texts
MANY_LABELS = 20


def task(raw: Path, name: str, params: Params) -> Task:
    """The task that `params` describes; if it lists no labels, the labels of the split `first` are taken."""
    if params.kind not in FORMATS.get(params.format, (params.kind,)):
        held = " or ".join(FORMATS[params.format])
        raise UsageError(f"params.yaml: format {params.format} holds kind {held}, not {params.kind}")
    metric, splits = _metric(params), params.splits
    if params.kind in ("text", "positive_pair", "span", "regression"):
        task = Task("custom", params.kind, (), metric, splits, params.language, unanswerable=params.unanswerable)
        return task.with_(normalization=params.normalization)
    labels = params.label_order or _labels(raw, params.first, params)
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
    """Rows of one split.

    Raises FindingsError after the last row, if others are wrong: a repeated id, a cell of the wrong type, an unknown
    label, a record with too few fields. A file that cannot be read as rows raises InputError.
    """
    findings = Findings(params.leave_out)
    yield from checked(raw, task, split, params, findings)
    findings.tell(str(_path(raw, split, params)))
    findings.require_none()


def checked(raw: Path, task: Task, split: str, params: Params, findings: Findings) -> Iterator[dict[str, Any]]:
    """Rows of one split that the task can have; `findings` takes the others. Raises InputError if there is no row."""
    path, ids = _path(raw, split, params), set()
    for at, row, _ in _rows(raw, split, params, findings):
        sentence = f"the id {row['id']!r} occurs twice" if row["id"] in ids else complaint(row, task, params)
        ids.add(row["id"])
        if sentence:
            findings.note(InputError(f"{path}: {at}: {sentence}"))
        else:
            yield row
    if not ids:
        findings.require_none()
        raise InputError(f"{path}: no rows in it")


def complaint(row: Record, task: Task, params: Params) -> str:
    """A sentence on the target or the choices of a row that the task cannot have; "" for any other row."""
    labelled = row.get("entities") if params.kind == "tagging" else [{"label": row.get("label")}]
    for label in [entity["label"] for entity in labelled or []] if task.labels else []:
        if label is not None and label not in task.labels:
            where = "; `labels` in params.yaml lists them" if params.label_order else ""
            return choices("label", label, task.labels) + where
    if params.kind == "choice" and len(row["choices"]) != len(task.labels):
        return f"{len(row['choices'])} choices; the task has {len(task.labels)}"
    if params.kind == "span" and row["answers"] == [] and not params.unanswerable:
        return "no answer; `unanswerable: true` says that questions may have none"
    return ""


def first_row(raw: Path, split: str, params: Params) -> Record | None:
    """The first row of a split. Raises InputError if its file is missing or invalid, or lacks a column.

    JSON that needs labels is read up to the first row that has one, since any record may lack the key.
    """
    if not (path := _path(raw, split, params)).exists():
        raise InputError(f"{path}: no such file or folder")
    source = split if split in params.files else "train"
    findings = Findings(params.leave_out)
    target = TARGETS.get(params.kind) if source == params.first and own_tables.is_of_records(path, params) else None
    first: Record | None = None
    for _, row, _ in read(raw, source, params, findings):
        first = first or row
        if target is None or row[target] is not None:
            break
    findings.require_none()
    return first


def verify(raw: Path, edition: str) -> None:
    raise UsageError("params.yaml: ingest: a custom corpus is read where it lies; name its path in prepare.source")


def _path(raw: Path, split: str, params: Params) -> Path:
    return raw if raw.is_file() else raw / params.files[split if split in params.files else "train"]


def _rows(raw: Path, split: str, params: Params, findings: Findings) -> Iterator[Read]:
    """Rows of one split with their places, from a file of any format; their labels are not checked yet."""
    if params.split is None or (split in params.files and split != "train"):
        yield from read(raw, split, params, findings)
        return
    at = _path(raw, split, params)
    file_states = tuple((file.stat().st_mtime_ns, file.stat().st_size) for file in [at, *sorted(at.glob("**/*"))])
    chosen = _chosen(raw, file_states, params.model_dump_json(exclude_unset=True))
    for one, side in zip(read(raw, "train", params, findings), chosen, strict=True):
        if side == split:
            yield one


@lru_cache(maxsize=1)  # the stage asks for one split after another
def _chosen(raw: Path, file_states: tuple[tuple[int, int], ...], described: str) -> list[str]:
    """The split of each row of train's file, which `file_states` tells from its later versions."""
    params = Params.model_validate_json(described)
    assert params.split is not None, "who asks has a rule"
    findings = Findings(params.leave_out)
    try:
        return split_rows.splits(read(raw, "train", params, findings), params.kind, params.split)
    except InputError as error:
        findings.require_none()  # without its wrong rows a split may have none
        path, why = str(_path(raw, "train", params)), str(error)  # an error of reading has the path
        raise InputError(why if why.startswith(path) else f"{path}: {why}") from None


def read(raw: Path, split: str, params: Params, findings: Findings) -> Iterator[Read]:
    """All rows of a split's file but those that `leave_out` names.

    Raises InputError, with the encoding that the file reads as, if it is another.
    """
    path = _path(raw, split, params)
    is_timed = params.split is not None and params.split.way == "time" and split == "train"
    try:
        for one in _of_format(path, split, params, findings):
            if reason := _left_out(one.row, params):
                findings.leave_out(reason)
            elif not is_timed or _has_time(one, path, findings):
                yield one
    except UnreadableError as error:
        if (name := encodings.reads_as(error.path)) and name != params.encoding:
            raise InputError(
                f"{error.place} is not {error.encoding}; this reads as {name}; write `encoding: {name}`"
            ) from None
        raise


def _has_time(row: Read, path: Path, findings: Findings) -> bool:
    """Return whether the rows can be put in order by the time of this one; its error is among the findings if not."""
    try:
        split_rows.time(row)
    except InputError as error:
        findings.note(InputError(f"{path}: {error}"))
        return False
    return True


def _left_out(row: Record, params: Params) -> str:
    """The reason why the rows of the task leave out this one; "" if they have it."""
    if "empty" in params.leave_out and not split_rows.text_of(row, params.kind).strip():
        return "empty"
    if "unlabelled" in params.leave_out and row.get(TARGETS.get(params.kind, "")) is None:
        return "unlabelled"
    return ""


def _of_format(path: Path, split: str, params: Params, findings: Findings) -> Iterator[Read]:
    encoding = "utf-8-sig" if encodings.opener(params.encoding) is None else params.encoding
    if params.format == "squad":
        yield from (Read(f"id {row['id']}", row) for row in questions(path, encoding, findings.note))
    elif params.format == "conll":
        opener = encodings.opener(params.encoding) or plain
        between = "" if params.units == "characters" else " "  # as a person writes the text that is asked about
        for number, sentence in enumerate(conll.sentences(path, opener=opener)):
            row_id = f"{'row' if params.split else split}-{number}"
            try:
                row = conll.row(path, sentence, row_id, between)
            except InputError as error:
                findings.note(error)
            else:
                yield Read(sentence.place, row)
    elif params.format == "folder":
        yield from (Read(*document) for document in folders.documents(path, params.kind == "single", encoding))
    else:
        yield from own_tables.rows(path, split, params, findings)


def _labels(raw: Path, split: str, params: Params) -> list[str]:
    """The distinct labels of a split, sorted; for kind choice, the numbers of the choices."""
    labels: set[str | None] = set()
    count, findings = 0, Findings(params.leave_out)
    for _, row, _ in read(raw, split, params, findings):
        count += 1
        if params.kind == "choice":
            return [str(number) for number in range(len(row["choices"]))]
        labels |= {e["label"] for e in row["entities"] or []} if params.kind == "tagging" else {row["label"]}
    findings.require_none()
    if params.kind != "tagging" and len(labels) > MANY_LABELS and count < ROWS_PER_LABEL * len(labels):
        raise InputError(
            f"{_path(raw, split, params)}: {len(labels):,} labels for {count:,} rows; is another column the label? "
            "`labels` can list them all"
        )
    return sorted(label for label in labels if label is not None)
