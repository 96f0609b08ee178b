"""Measure the quality of rows, and compare it with the expectations in params.yaml."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from pipelines.core import tables
from pipelines.core.errors import FindingsError, shown
from pipelines.core.progress import say
from pipelines.core.schema import INPUTS, TARGETS
from pipelines.core.task import Task
from pipelines.data import doubts, duplicates
from pipelines.entries.prepare import Expect

SHOWN = 5  # offending row ids in a message
UNMATCHED = "rows with an answer that is not the text at its position"
NONE_KNOWN = "none known"  # stands for a missing label
BINS = (0, 10, 20, 30, 50, 75, 100, 150, 200, 300, 500, 1000, 2000, 5000)  # of lengths in characters
LETTERS = {"japanese": re.compile("[぀-ヿ㐀-鿿]"), "latin": re.compile("[A-Za-z]")}
ODD = {
    "replacement character": re.compile("\ufffd"),
    "control character": re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]"),
    "UTF-8 read as Latin-1": re.compile("[ÃÂ][\x80-\xbf]|ã[\x80-\x83]|â€"),
    "private use": re.compile("[\ue000-\uf8ff]"),
}


class _First(NamedTuple):
    id: str
    target: Any  # to compare with the target of a row with the same text


@dataclass
class _Split:
    """The result of one pass over a split; it keeps digests of the texts, not the texts."""

    rows: int = 0
    first: dict[bytes, "_First"] = field(default_factory=dict)  # digest of a text -> the first row that has it
    sides: dict[bytes, str] = field(default_factory=dict)  # digest for any order of sides -> its first row
    again: Counter[bytes] = field(default_factory=Counter)  # the same digest -> how many later rows have it
    labels: Counter[str] = field(default_factory=Counter)
    lengths: list[int] = field(default_factory=list)
    found: dict[str, list[str]] = field(default_factory=dict)  # empty, duplicates, unmatched: ids
    named: list[str] = field(default_factory=list)  # conflicts: the text, and the two rows with their labels
    odd: dict[str, list[str]] = field(default_factory=dict)
    letters: Counter[str] = field(default_factory=Counter)
    near: duplicates.Near = field(default_factory=duplicates.Near)


def quality(folder: Path, task: Task) -> dict[str, Any]:
    """Counts, label balance, lengths, exact and near duplicates, oddities, and rows shared between splits.

    A pair whose sides are swapped counts as shared too.
    """
    splits = {split: _pass(folder / f"{split}.parquet", task) for split in task.splits}
    shared = {}
    for i, a in enumerate(task.splits):
        for b in task.splits[i + 1 :]:
            shared[f"{a}, {b}"] = _shared(splits[a], splits[b])
    return {
        "task": task.kind,
        "splits": {split: _numbers(counted, task) for split, counted in splits.items()},
        "shared_between_splits": shared,
    }


def _shared(first: _Split, second: _Split) -> dict[str, Any]:
    """The rows of `second` that are in `first`, with their repetitions."""
    both = first.sides.keys() & second.sides.keys()
    ids = sorted(second.sides[digest] for digest in both)
    return _some(ids) | {"rows": len(both) + sum(second.again[digest] for digest in both)}


def check(
    report: dict[str, Any], expect: Expect, where: str, strict: bool = False, findings: Sequence[str] = ()
) -> None:
    """Raise FindingsError with row ids for all expectations that are not met; with `warn`, only print them.

    `report` is the result of `quality`. Printed lines begin with `where`; an error does not, since the stage adds its
    name. `findings` are those of reading the rows; the error has them too.

    Doubts are always printed, and so is the number of answers that are not the text at their position; with `strict`,
    such answers raise an error.
    """
    wrong = [*findings, *unlabelled(report)]
    _tell_unlabelled(report, where)
    if strict:
        expect = expect.model_copy(update={"max_unmatched": 0.0})
    failed = list(unmet(report, expect))
    if expect.warn and not strict:
        for sentence in failed:
            say(f"{where}: {sentence}")
        failed = []
    for sentence in doubts.sentences(report, expect):
        say(f"{where}: {sentence}")
    for split, numbers in report["splits"].items():
        unmatched = numbers.get("unmatched", {"rows": 0})
        if unmatched["rows"] and expect.max_unmatched == 1:
            say(f"{where}: {split} has {unmatched['rows']} {UNMATCHED}, such as {unmatched['ids']}")
    if wrong or failed:
        raise FindingsError([*wrong, *failed])


def unlabelled(report: dict[str, Any]) -> Iterator[str]:
    """A sentence if a training row has no label."""
    numbers = report["splits"].get("train", {})
    if (without := numbers.get("unlabelled", {"rows": 0}))["rows"]:
        what = f"train: {without['rows']:,} of {numbers['rows']:,} rows have no label"
        yield f"{what}, such as {without['ids']}; training needs a label in every row"


def _tell_unlabelled(report: dict[str, Any], where: str) -> None:
    """Print a line for each split other than train with some unlabelled rows."""
    for split, numbers in report["splits"].items():
        rows, without = numbers["rows"], numbers.get("unlabelled", {"rows": 0})
        if split != "train" and 0 < without["rows"] < rows:
            what = f"{split}: {without['rows']:,} of {rows:,} rows have no label"
            say(f"{where}: {what}, such as {without['ids']}; the split cannot be scored")


def unmet(report: dict[str, Any], expect: Expect) -> Iterator[str]:
    """A sentence for each expectation that is not met."""
    limits = {
        "empty": ("empty texts", expect.max_empty),
        "duplicates": ("duplicate rows", expect.max_duplicates),
        "conflicts": ("rows whose text has a different label in an earlier row", expect.max_conflicts),
        "near_duplicates": ("rows that are similar to another row", expect.max_near_duplicates),
        "unmatched": (UNMATCHED, expect.max_unmatched),
    }
    for split, numbers in report["splits"].items():
        if numbers["rows"] < expect.min_rows:
            yield f"{split} has {numbers['rows']} rows, min_rows expects {expect.min_rows}"
        for key, (what, share) in limits.items():
            part = numbers.get(key, {"rows": 0})
            if part["rows"] > share * part.get("of", numbers["rows"]):
                yield f"{split} has {part['rows']} {what}, such as {doubts.examples(part)}"
    for pair, leak in report["shared_between_splits"].items():
        if expect.no_leakage and leak["rows"]:
            yield f"{leak['rows']} rows are in both of {pair}, such as {leak['ids']}"


def _pass(path: Path, task: Task) -> _Split:
    split = _Split()
    for batch in tables.read_batches(path):
        for row in batch.to_pylist():
            _look(split, row, task)
    return split


def _look(split: _Split, row: dict[str, Any], task: Task) -> None:
    parts = [row[name] for name in INPUTS[task.kind]]
    text = "\t".join("\t".join(part) if isinstance(part, list) else part for part in parts)
    split.rows += 1
    split.lengths.append(len(text))
    _look_at_others(split, row, text, parts, task)
    if not text.strip():
        split.found.setdefault("empty", []).append(row["id"])
    for name, pattern in ODD.items():
        if pattern.search(text):
            split.odd.setdefault(name, []).append(row["id"])
    for name, pattern in LETTERS.items():
        split.letters[name] += bool(pattern.search(text))
    _look_at_target(split, row, task)


def _look_at_others(split: _Split, row: dict[str, Any], text: str, parts: list[Any], task: Task) -> None:
    """Compare a row with the rows before it."""
    target = row[TARGETS[task.kind]] if task.kind in TARGETS else None
    digest = hashlib.blake2b(text.encode(), digest_size=16).digest()
    sides = digest
    if task.kind in ("pair", "regression"):
        sides = hashlib.blake2b("\t".join(sorted(parts)).encode(), digest_size=16).digest()
    if (first := split.first.get(digest)) is not None:
        split.found.setdefault("duplicates", []).append(row["id"])
        if target != first.target:
            split.found.setdefault("conflicts", []).append(row["id"])
            if len(split.named) < SHOWN and isinstance(target, str) and isinstance(first.target, str):
                split.named.append(f"{shown(text)} ({first.id}: {first.target}; {row['id']}: {target})")
    else:
        if sides in split.sides:
            split.found.setdefault("swapped", []).append(row["id"])
        split.first[digest] = _First(row["id"], target)
        split.near.add(row["id"], text)
    if split.sides.setdefault(sides, row["id"]) != row["id"]:
        split.again[sides] += 1


def _look_at_target(split: _Split, row: dict[str, Any], task: Task) -> None:
    if task.kind not in TARGETS:
        return
    target = row[TARGETS[task.kind]]
    if target is None:
        split.found.setdefault("unlabelled", []).append(row["id"])
        split.labels[NONE_KNOWN] += 1
    elif task.kind == "span":
        if any(row["context"][a["start"] : a["start"] + len(a["text"])] != a["text"] for a in target):
            split.found.setdefault("unmatched", []).append(row["id"])
        split.labels["answerable" if target else "unanswerable"] += 1
    elif task.kind == "tagging":
        split.labels.update(entity["label"] for entity in target)
    else:
        split.labels[f"{target:.0f}" if task.kind == "regression" else target] += 1


def _numbers(split: _Split, task: Task) -> dict[str, Any]:
    lengths = np.array(split.lengths or [0])
    quantiles = np.quantile(lengths, [0, 0.5, 0.9, 1], method="lower").tolist()
    counts = np.bincount(np.searchsorted(BINS, lengths, side="right") - 1, minlength=len(BINS))
    near = split.near.found()
    numbers: dict[str, Any] = {
        "rows": split.rows,
        "characters": dict(zip(("min", "median", "p90", "max"), map(int, quantiles), strict=True)),
        "lengths": {str(start): int(count) for start, count in zip(BINS, counts, strict=True) if count},
        "empty": _some(split.found.get("empty", [])),
        "duplicates": _some(split.found.get("duplicates", [])),
        "conflicts": _some(split.found.get("conflicts", [])) | ({"named": split.named} if split.named else {}),
        "near_duplicates": {**_some(near), "of": split.near.rows},
        "letters": {name: split.letters[name] for name in LETTERS},
        "odd": {name: _some(ids) for name, ids in split.odd.items()},
    }
    if task.kind in ("pair", "regression"):
        numbers["swapped"] = _some(split.found.get("swapped", []))
    if task.kind == "span":
        numbers["unmatched"] = _some(split.found.get("unmatched", []))
    if task.kind in TARGETS:
        numbers["unlabelled"] = _some(split.found.get("unlabelled", []))
        order = [*task.labels, *sorted(set(split.labels) - set(task.labels))]
        numbers["labels"] = {label: split.labels[label] for label in order if split.labels[label]}
    return numbers


def _some(ids: list[str]) -> dict[str, Any]:
    return {"rows": len(ids), "ids": ids[:SHOWN]}
