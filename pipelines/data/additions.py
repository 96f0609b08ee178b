"""New rows for a corpus of one's own: compared with the rows that are there, and appended to its file of train."""

import os
import stat
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from pipelines.core import params, paths
from pipelines.core.errors import FindingsError, InputError, UsageError, shown
from pipelines.core.schema import TARGETS
from pipelines.data import appending, duplicates, file_form, own_tables, split_rows
from pipelines.data.corpora import custom
from pipelines.data.findings import Findings
from pipelines.data.formats import encodings
from pipelines.data.formats.records import Record, form_of_suffix, plain, records
from pipelines.data.own_params import FORMATS, Labels, Params
from pipelines.entries.prepare import Prepare

SHOWN = 5  # places in a sentence


@dataclass
class Addition:
    """The new rows of a file, and the reasons for which others are left out.

    Attributes:
        target: the corpus's file of train.
        rows: place in the new file -> the record that is appended.
        out: reason -> places of the rows that are left out.
        empty: places of rows without a text; only where the entry does not leave them out.
        labels: new labels -> rows; only where the entry lists no labels.
        before, after: split -> rows.
        moved: earlier rows whose split is another one now.
    """

    file: Path
    target: Path
    form: str
    rows: dict[str, Record] = field(default_factory=dict)
    out: dict[str, list[str]] = field(default_factory=dict)
    empty: list[str] = field(default_factory=list)
    labels: Counter[str] = field(default_factory=Counter)
    before: Counter[str] = field(default_factory=Counter)
    after: Counter[str] = field(default_factory=Counter)
    moved: int = 0

    def leave_out(self, reason: str, place: str) -> None:
        self.out.setdefault(reason, []).append(place)


@dataclass(frozen=True)
class _There:
    """The rows of the corpus: plain text -> split and target; id -> split; the plain texts of the test.

    `status` is that of the file of train before it was read.
    """

    status: os.stat_result
    texts: dict[str, tuple[str, Any]]
    splits: dict[str, str]
    test: list[str]


class _Row(NamedTuple):
    """A row of the new file."""

    place: str
    id: str
    text: str  # as duplicates.plain has it
    target: Any


def add(file: Path, name: str, entry: Prepare, origin: str = "") -> Addition:
    """Append the new rows of a table to the corpus of the entry `prepare.<name>`, whose other lines stay as they are.

    Left out are rows whose text the corpus or an earlier new row has, and rows similar to one of the test.
    `origin` names the place from which the file was copied, for a person.

    Raises FindingsError for rows that the entry cannot have, InputError for a file or a corpus that is no table, and
    if nothing is left to add. The corpus's file is replaced at once, or not at all.
    """
    if entry.corpus != "custom":
        raise UsageError(f"params.yaml: prepare.{name}: {entry.corpus} is a published corpus; add to one of your own")
    options, raw = params.options(entry, custom.Params, f"prepare.{name}"), Path(entry.source)
    addition = _target(file, raw, options, name)
    task = custom.task(raw, entry.task, options)
    there = _rows_there(raw, task, options, addition)
    addition.after = addition.before.copy()
    findings = Findings([reason for reason in options.leave_out if reason != "broken"])
    _choose(addition, there, task, options, findings)
    try:
        findings.require_none()
    except FindingsError as error:
        if "broken" not in options.leave_out:
            raise
        addition.out["are broken"] = error.findings
    if addition.rows:
        _append(addition, there, task, options)
    findings.tell(origin or str(file))
    return addition


def _target(file: Path, raw: Path, options: Params, name: str) -> Addition:
    """The corpus's file of train. Raises UsageError unless both are tables."""
    if not file.is_file():
        raise InputError(f"{file}: no such file")
    if options.format in FORMATS or "train" not in options.files:
        why = f"its format is {options.format}" if options.format in FORMATS else "it has no rows of train"
        raise UsageError(f"params.yaml: prepare.{name}: {why}; add the new rows to {raw} yourself, then bertline check")
    if raw.resolve().is_relative_to(paths.ARTIFACTS.resolve()):
        raise UsageError(f"params.yaml: prepare.{name}.source: {raw} is written by a stage; add to what that reads")
    target = raw if raw.is_file() else raw / options.files["train"]
    if not target.is_file():
        raise InputError(f"{target}: no such file; params.yaml: prepare.{name} names it")
    if target.resolve() == file.resolve():
        raise UsageError(f"{file}: it is the corpus's own file; name a file with new rows")
    form = options.format or form_of_suffix(target)
    if form == "xlsx":
        raise UsageError(f"{target}: a workbook; add the rows in the program that wrote it, then bertline check")
    return Addition(file, target, form)


def _version(status: os.stat_result) -> tuple[int, int, int]:
    return status.st_ino, status.st_size, status.st_mtime_ns


def _linked(target: Path) -> Path:
    """The file behind a link; the link itself if that may not be written, as what DVC's links lead to."""
    file = target.resolve()
    return file if file.stat().st_mode & stat.S_IWUSR else target


def _rows_there(raw: Path, task: Any, options: Params, addition: Addition) -> _There:
    there = _There(addition.target.stat(), {}, {}, [])
    findings = Findings(options.leave_out)
    for split in options.splits:
        for row in custom.checked(raw, task, split, options, findings):
            text = duplicates.plain(split_rows.text_of(row, options.kind))
            there.texts[text] = (split, row.get(TARGETS.get(options.kind, "")))
            there.splits[row["id"]] = split
            addition.before[split] += 1
            if split == "test":
                there.test.append(text)
    findings.require_none()
    return there


def _choose(addition: Addition, there: _There, task: Any, options: Params, findings: Findings) -> None:
    """Take the rows that are new. `findings` takes those that the entry cannot have."""
    file, form = addition.file, file_form.form(addition.file)
    if form["format"] not in file_form.TABLES:
        raise InputError(f"{file}: no table; CSV, TSV, JSONL, a JSON list, Parquet or xlsx is expected")
    if addition.form == "tsv" and file.suffix.lower() == ".tsv":  # quotes are characters, as in the corpus
        form = {key: value for key, value in form.items() if key != "delimiter"} | {"format": "tsv"}
    update = {"encoding": "utf-8", "delimiter": ",", "files": {"train": ""}, "labels": _labels(addition, task, options)}
    described = options.model_copy(update=update | form)
    fresh: dict[str, _Row] = {}
    for new in _read(file, task, described, findings):
        before = fresh[new.text].target if new.text in fresh else there.texts.get(new.text, ("", None))[1]
        if options.kind == "span" or (new.text not in fresh and new.text not in there.texts):
            fresh[new.text if options.kind != "span" else new.place] = new
        else:
            is_other = None not in (before, new.target) and before != new.target
            addition.leave_out("repeat a text" + " with another target" * is_other, new.place)
    similar = duplicates.similar_to([new.text for new in fresh.values()], there.test)
    opener = encodings.opener(described.encoding) or plain
    raw = dict(records(file, described.format, (), opener, described.delimiter, lambda _: None))
    for place, record in raw.items():
        if not own_tables.is_selected(record, options.where.get("train", {})):
            addition.leave_out("are not of train (`where`)", place)
    for new, is_similar in zip(fresh.values(), similar, strict=True):
        if is_similar:
            addition.leave_out("are similar to a row of the test", new.place)
        else:
            addition.rows[new.place] = raw[new.place]
            if not new.text:
                addition.empty.append(new.place)
            if isinstance(new.target, str) and task.labels and new.target not in task.labels:
                addition.labels[new.target] += 1
    if "id" in options.columns:
        _require_other_ids(addition, [fresh_row.id for fresh_row in fresh.values()], there)


def _labels(addition: Addition, task: Any, options: Params) -> list[str] | Labels:
    """The key `labels` for the new file. True is the label `True` of a CSV or TSV, in which it is written so."""
    if addition.form not in ("csv", "tsv") or options.kind not in ("single", "pair"):
        return options.labels
    strip = isinstance(options.labels, Labels) and options.labels.strip
    same = {label: label for label in task.labels}
    return Labels(names=options.label_order, rename=same | options.renamed, strip=strip)


def _read(file: Path, task: Any, described: Params, findings: Findings) -> Iterator[_Row]:
    """The rows of the new file; a label is new only where the entry lists none."""
    free = task.with_(labels=()) if not described.label_order and described.kind in ("single", "pair") else task
    for place, row, _ in custom.read(file, "train", described, findings):
        if sentence := custom.complaint(row, free, described):
            findings.note(InputError(f"{file}: {place}: {sentence}"))
        else:
            text = duplicates.plain(split_rows.text_of(row, described.kind))
            yield _Row(place, row["id"], text, row.get(TARGETS.get(described.kind, "")))


def _require_other_ids(addition: Addition, ids: list[str], there: _There) -> None:
    """Raise InputError if new rows have ids of earlier ones or of each other; exports of a month often begin at 1."""
    twice = [name for name, count in Counter(ids).items() if count > 1 or name in there.splits]
    if twice:
        raise InputError(
            f"{addition.file}: {len(twice):,} ids occur twice or are in {addition.target} already, such as "
            f"{shown(twice[0])}; number the new rows on, or take `id` out of the entry's columns"
        )


def _append(addition: Addition, there: _There, task: Any, options: Params) -> None:
    """Write the corpus's file with the new rows. Raises InputError, and leaves it as it is, if it cannot be read."""
    target = addition.target
    columns = {*options.columns.values(), *([options.split.column] if options.split and options.split.column else [])}
    with paths.fresh_file(_linked(target)) as aside:
        if _version(target.stat()) != _version(there.status):
            raise InputError(f"{target}: it has changed meanwhile; nothing is added; run the command again")
        appending.append(target, aside, addition.form, options, addition.rows, columns, addition.file)
        try:
            _count_after(addition, aside, there, task, options)
        except InputError as error:  # it names a file that is gone
            about = error.findings if isinstance(error, FindingsError) else [str(error)]
            about = [sentence.replace(str(aside), f"{target} with the new rows") for sentence in about]
            raise FindingsError(about, error.exit_status) from None


def _count_after(addition: Addition, aside: Path, there: _There, task: Any, options: Params) -> None:
    """Read the file as `prepare` will, and count its rows. Raises what `prepare` would raise."""
    findings = Findings(options.leave_out)
    after = options.model_copy(update={"format": addition.form, "files": {"train": ""}})
    for split in after.splits:
        addition.after[split] = 0
        labels = tuple({*task.labels, *addition.labels}) if task.labels else ()
        for row in custom.checked(aside, task.with_(labels=labels), split, after, findings):
            addition.after[split] += 1
            addition.moved += there.splits.get(row["id"], split) != split
    findings.require_none()
    more = sum(addition.after[split] - addition.before[split] for split in after.splits)
    if more != len(addition.rows):
        raise InputError(
            f"{addition.target}: with {len(addition.rows):,} new rows at its end it would have {more:,} rows more; "
            "nothing is added; write them into it yourself, then bertline check"
        )


def sentences(addition: Addition) -> Iterator[str]:
    """A line for each thing that was seen and done."""
    for reason, places in addition.out.items():
        yield f"{addition.file}: {len(places):,} rows {reason}, and are left out: {_some(places)}"
    if addition.empty:
        way = "`leave_out: [empty]` leaves them out"
        yield f"{addition.file}: {len(addition.empty):,} rows have no text; {way}: {_some(addition.empty)}"
    for label, count in addition.labels.items():
        yield f"{addition.file}: {count:,} rows have the label {shown(label)}, which is new"
    counts = (f"{split} {addition.before[split]:,} -> {count:,}" for split, count in addition.after.items())
    yield f"{addition.target}: {len(addition.rows):,} rows are added" + (
        f"; {', '.join(counts)}" if addition.rows else ""
    )
    if addition.after["test"] != addition.before["test"]:
        moved = f", and {addition.moved:,} of the earlier rows are in another split" if addition.moved else ""
        yield f"the test has other rows now{moved}: do not compare new scores with earlier ones"


def _some(places: Sequence[str]) -> str:
    return ", ".join(places[:SHOWN]) + ", ..." * (len(places) > SHOWN)


def answer(addition: Addition) -> dict[str, Any]:
    """The addition for a program: counts of rows, and the places of those that are left out."""
    return {
        "file": str(addition.target),
        "added": len(addition.rows),
        "left_out": addition.out,
        "labels": dict(addition.labels),
        "before": dict(addition.before),
        "after": dict(addition.after),
        "moved": addition.moved,
    }


def stages(name: str, sections: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The stages that score the task `name`: those of evaluate and baseline."""
    return [
        f"{section}@{key}"
        for section in ("evaluate", "baseline")
        for key, entry in (sections.get(section) or {}).items()
        if isinstance(entry, Mapping) and entry.get("task") == name
    ]
