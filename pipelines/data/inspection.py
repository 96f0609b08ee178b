"""An inspection of files of one's own: their form, rows, labels, lengths and faults. `bertline new` is built on it."""

import difflib
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from typing import Any

import numpy as np

from pipelines.core.errors import FindingsError, InputError, UsageError, shown
from pipelines.core.schema import TARGETS
from pipelines.data import doubts, duplicates, file_form, scripts, split_rows, table_inspection
from pipelines.data.corpora import custom
from pipelines.data.findings import Findings
from pipelines.data.formats import folders
from pipelines.data.own_params import Params
from pipelines.data.table_inspection import TableFacts

SHOWN = 5
MOST_LABELS = 20  # in a line
ALIKE = 0.8  # of two labels that may be one, misspelt


@dataclass
class Inspection:
    """The keys of `prepare` that describe the files, and counts of their rows."""

    keys: dict[str, Any]  # kind, source, files, format, encoding, delimiter, columns, language, ...
    rows: dict[str, int] = field(default_factory=dict)  # split -> rows
    labels: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)  # of the texts, in characters
    empty: list[str] = field(default_factory=list)  # places of rows without a text
    unlabelled: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)  # sentences
    again: int = 0  # rows whose text an earlier row has
    similar: int = 0  # rows whose text is similar to another one
    contradictions: list[str] = field(default_factory=list)
    table: TableFacts = field(default_factory=lambda: TableFacts({}))
    foreign: str = ""  # the script of the texts, if no small encoder knows it
    choices: int = 0  # of the first row that has any

    @property
    def kind(self) -> str:
        return self.keys["kind"]

    @property
    def long(self) -> int:
        """The characters that 19 of 20 texts have at most."""
        return int(np.quantile(self.lengths or [0], 0.95, method="higher"))


def inspect(files: Sequence[Path], text: str = "", label: str = "", sheet: str = "") -> Inspection:
    """Read all rows of the files. `text` and `label` name columns, `sheet` a sheet, that a person chose.

    Raises InputError for a file in no known form, or files whose names do not say which split they are.
    """
    for file in files:
        if not file.exists():
            raise InputError(f"{file}: no such file or folder")
    first = files[0]
    seen = Inspection({"source": str(first)})
    if len(files) > 1:
        if len({file.parent for file in files}) > 1:
            raise InputError(f"{files[-1]}: it is in another folder than {first}; put the files of a corpus into one")
        seen.keys |= {"source": str(first.parent), "files": file_form.splits(files)}
    seen.keys |= file_form.of_all(files)
    if first.is_file() and seen.keys["format"] in file_form.TABLES:
        seen.table = table_inspection.inspect(files, seen.keys, text, label, sheet)
        seen.keys |= seen.table.keys
    elif sheet:
        raise UsageError(f"--sheet: {first} is no workbook; leave it out")
    keys = dict(seen.keys)
    _count(seen)
    if keys["format"] == "conll" and seen.keys["language"] == "ja" and "units" not in keys:
        seen = Inspection(keys | {"units": "characters"})  # no spaces divide its words, so its texts are others
        _count(seen)
    return seen


def require_prepared(seen: Inspection) -> list[str]:
    """Raise FindingsError for rows that `prepare` refuses with these keys, beside the broken ones that were counted.

    Where it leaves out broken rows, these are counted as such, and a line on them is returned. A label that is none is
    refused there too: it may be that of many rows.
    """
    options = {key: value for key, value in seen.keys.items() if key != "source"}
    params, raw = Params(**options), Path(seen.keys["source"])
    seen_already = {*seen.broken}
    task = custom.task(raw, "", params)
    wrong: dict[str, list[str]] = {}
    for split in params.files:
        findings = Findings([reason for reason in params.leave_out if reason != "broken"])
        deque(custom.checked(raw, task, split, params, findings), maxlen=0)
        try:
            findings.require_none()
        except FindingsError as error:
            wrong[split] = [sentence for sentence in error.findings if sentence not in seen_already]
    more = [sentence for sentences in wrong.values() for sentence in sentences]
    unknown = {params.renamed.get(label, label) for label in seen.labels} - {*task.labels} if task.labels else set()
    if more and ("broken" not in params.leave_out or unknown):
        raise FindingsError(more)
    for split, some in wrong.items():
        seen.rows[split] -= len(some)
    seen.broken += more
    return [_left_out(more, "more broken rows")] if more else []


def _count(seen: Inspection) -> None:
    """Read the rows as `prepare` reads them, and count."""
    options = {key: value for key, value in seen.keys.items() if key != "source"}
    options |= {"unanswerable": True} if seen.kind == "span" else {}
    options |= {"labels": seen.keys.get("labels", {})} if seen.kind in ("single", "pair", "tagging") else {}
    params, raw = Params(**options), Path(seen.keys["source"])
    first: dict[str, tuple[str, Any]] = {}
    for split in params.files:
        findings = Findings()
        for place, row, _ in custom.read(raw, split, params, findings):
            seen.rows[split] = seen.rows.get(split, 0) + 1
            _count_row(seen, first, place, row)
        try:
            findings.require_none()
        except FindingsError as error:
            seen.broken += error.findings
    if not first:
        raise InputError(
            f"{raw}: all rows are broken; {seen.broken[0]}" if seen.broken else f"{raw}: no row has a text"
        )
    distinct = sorted(first)[: duplicates.MAX_ROWS]
    seen.similar = len(distinct) - len({*duplicates.together(distinct)})
    seen.keys["language"], seen.foreign = scripts.language(first), scripts.foreign(first)
    if seen.kind == "tagging" and seen.keys["format"] in file_form.TABLES and seen.keys["language"] == "ja":
        seen.keys["units"] = "characters"  # no spaces divide its words
    if seen.kind == "span" and seen.labels["unanswerable"]:
        seen.keys["unanswerable"] = True
    _name_labels(seen)


def _count_row(seen: Inspection, first: dict[str, tuple[str, Any]], place: str, row: dict[str, Any]) -> None:
    """Count one row; `first` holds the place and the target of the first row of each text."""
    text, target = split_rows.text_of(row, seen.kind), row.get(TARGETS[seen.kind])
    seen.lengths.append(len(text))
    if not text.strip():
        seen.empty.append(place)
        return
    seen.choices = seen.choices or len(row.get("choices", ()))
    _count_target(seen, place, target)
    before, other = first.setdefault(duplicates.plain(text), (place, target))
    if before == place or seen.kind == "span":
        return
    seen.again += 1
    if other != target and target is not None:
        seen.contradictions.append(f"{shown(text)} ({before}: {other}; {place}: {target})")


def _count_target(seen: Inspection, place: str, target: Any) -> None:
    if target is None:
        seen.unlabelled.append(place)
    elif seen.kind == "span":
        seen.labels["answerable" if target else "unanswerable"] += 1
    elif seen.kind == "tagging":
        seen.labels.update(entity["label"] for entity in target)
    elif isinstance(target, str):
        seen.labels[target] += 1


def _name_labels(seen: Inspection) -> None:
    """Write the key `labels`: outer spaces are taken away, and labels that differ in case or width become one."""
    if seen.kind in ("single", "pair"):
        if not seen.labels:
            why = seen.broken[0] if seen.broken else "all of them are empty"
            raise InputError(f"{seen.keys['source']}: no row has a label; {why}")
        rename = dict(doubts.alike(seen.labels))
        for label, frequent in rename.items():
            seen.labels[frequent] += seen.labels.pop(label)
        numbers = seen.keys.get("labels", {}).get("rename", {})
        rename |= {cell: rename.get(name, name) for cell, name in numbers.items()}
        seen.keys["labels"] = {"names": sorted(seen.labels), **({"rename": rename} if rename else {})}
    elif seen.kind == "tagging" and seen.labels:
        seen.keys["labels"] = {**seen.keys.get("labels", {}), "names": sorted(seen.labels)}  # those of the test too
    elif seen.kind == "choice" and (positions := _positions(seen)):
        seen.keys["labels"] = {"rename": positions}
    leave_out = [name for name in ("empty", "unlabelled", "broken") if getattr(seen, name)]
    if leave_out:
        seen.keys["leave_out"] = leave_out


def _positions(seen: Inspection) -> dict[str, str]:
    """Names of choices, numbers from 1 or letters, with the positions that they mean; empty for labels from 0."""
    count = seen.choices
    numbers = [str(number) for number in range(1, count + 1)]
    for names in (numbers, ascii_uppercase[:count], ascii_lowercase[:count]):
        if {*seen.labels} <= {*names} and (names is not numbers or str(count) in seen.labels):
            return {name: str(position) for position, name in enumerate(names)}
    return {}


def sentences(seen: Inspection) -> list[str]:
    """A line for each thing that was seen."""
    keys, total = seen.keys, sum(seen.rows.values())
    form = keys["format"] + ("" if keys["format"] in file_form.BINARY else f" in {keys.get('encoding', 'utf-8')}")
    form += f", columns separated by {keys['delimiter']!r}" if "delimiter" in keys else ""
    form += f", sheet {keys['sheet']!r}" if "sheet" in keys else ""
    report = [f"{keys['source']}: {form}; {total:,} rows of kind {seen.kind}, language {keys['language']}"]
    if others := seen.table.other_sheets:
        report.append(f"sheets that are not read: {', '.join(map(shown, others))}; `sheet` names another")
    if keys["format"] == "folder" and (unread := folders.unread(Path(keys["source"]))):
        some = ", ".join(shown(str(file)) for file in unread[:SHOWN]) + (", ..." if len(unread) > SHOWN else "")
        report.append(f"{len(unread):,} files are not read: {some}; a text is LABEL/NAME.txt")
    if keys.get("columns"):
        report.append("columns: " + ", ".join(f"{ours} is {theirs!r}" for ours, theirs in keys["columns"].items()))
    if seen.foreign:
        why = "no language of it is known to a small encoder of this project"
        report.append(f"script: {seen.foreign}; {why}; start from a published encoder (docs/using.md)")
    if seen.labels:
        most_common = ", ".join(f"{label} {count:,}" for label, count in seen.labels.most_common(MOST_LABELS))
        many = f"{len(seen.labels):,}, of which the most frequent are " if len(seen.labels) > MOST_LABELS else ""
        report.append(f"labels: {many}{most_common}")
    if names := seen.table.class_names:
        some = ", ".join(f"{number} is {shown(name)}" for number, name in [*names.items()][:MOST_LABELS])
        report.append(f"names of labels, from the file's metadata: {some}{', ...' if len(names) > MOST_LABELS else ''}")
    median = int(np.median(seen.lengths or [0]))
    most = max(seen.lengths or [0])
    report.append(f"lengths in characters: half up to {median:,}, 19 of 20 up to {seen.long:,}, all up to {most:,}")
    for what, places in (("without a text", seen.empty), ("without a label", seen.unlabelled)):
        if places:
            report.append(f"{len(places):,} rows {what} are left out: {', '.join(places[:SHOWN])}")
    if seen.table.rejected:
        report.append(f"{seen.table.rejected:,} rows are left out: their `answer` is not accept")
    if seen.broken:
        report.append(_left_out(seen.broken, "broken rows"))
    if seen.again or seen.similar:
        report.append(f"{seen.again:,} rows repeat a text, and {seen.similar:,} texts are similar to another one")
    if seen.contradictions:
        report.append(f"{len(seen.contradictions):,} texts have two labels: {', '.join(seen.contradictions[:SHOWN])}")
    return [*report, *_of_labels(seen)]


def _left_out(broken: list[str], what: str) -> str:
    return f"{len(broken):,} {what} are left out: {'; '.join(broken[:SHOWN])}"


def _of_labels(seen: Inspection) -> list[str]:
    report = [
        f"the label {shown(rare)} is the choice at position {frequent}"
        if seen.kind == "choice"
        else f"the labels {shown(rare)} and {shown(frequent)} become one"
        for rare, frequent in seen.keys.get("labels", {}).get("rename", {}).items()
        if rare != frequent and rare not in seen.table.class_names
    ]
    report += doubts.without_value(seen.labels)
    for label, count in seen.labels.items() if seen.kind in ("single", "pair") else []:
        if count == 1:
            near = difflib.get_close_matches(label, [name for name in seen.labels if seen.labels[name] > 1], 1, ALIKE)
            hint = f"; if it is {near[0]!r}, write it under labels.rename" if near else ""
            report.append(f"the label {shown(label)} has one row, which no test can hold{hint}")
    return report
