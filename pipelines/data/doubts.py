"""Doubts about rows that pass all expectations; `prepare` prints them with counts and the params.yaml key to set."""

import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any

from pipelines.core.errors import shown
from pipelines.entries.prepare import Expect

FEW = 2  # a label with at most this many rows is reported as rare
MOST = 20  # number of labels in the report
NONE = {"rows": 0}
# what pandas reads as an empty cell, and programs write for one
NO_VALUE = ("#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null")
# key of a split's numbers -> the limit in `expect`, and a description of such rows
LIMITS = {
    "empty": ("max_empty", "empty texts"),
    "duplicates": ("max_duplicates", "duplicate rows"),
    "conflicts": ("max_conflicts", "rows whose text has a different label in an earlier row"),
}


def sentences(quality: Mapping[str, Any], expect: Expect) -> Iterator[str]:
    """The doubts about rows of this quality; those whose limit in `expect` is set are left out."""
    for split, numbers in quality["splits"].items():
        for key, (limit, what) in LIMITS.items():
            if (some := numbers.get(key, NONE))["rows"] and getattr(expect, limit) == 1:
                yield f"{split} has {_count(some, what)}; `expect: {{{limit}: 0}}` refuses them"
        if (some := numbers.get("swapped", NONE))["rows"]:
            yield f"{split} has {_count(some, 'pairs that an earlier row has with its texts swapped')}"
        if quality["task"] in ("single", "pair", "choice", "tagging"):
            yield from _of_labels(split, numbers["labels"])
        if quality["task"] in ("single", "pair", "tagging"):
            yield from _not_in_train(split, numbers["labels"], quality["splits"].get("train", {}).get("labels", {}))
    for pair, leak in quality["shared_between_splits"].items():
        if leak["rows"] and not expect.no_leakage:
            yield f"{_count(leak, f'rows are in both of {pair}')}; `expect: {{no_leakage: true}}` refuses them"


def _count(some: Mapping[str, Any], what: str) -> str:
    return f"{some['rows']:,} {what}, such as {examples(some)}"


def examples(some: Mapping[str, Any]) -> str:
    """The rows that a message names: by their texts and labels, or by their ids."""
    return ", ".join(some.get("named", ())) or str(some["ids"])


def without_value(labels: Mapping[str, int]) -> Iterator[str]:
    """A sentence on each label that is a word for no value."""
    for label in filter(labels.__contains__, NO_VALUE):
        way = "leave these cells empty, or choose the rows by `where`"
        yield f"the label {shown(label)} ({labels[label]:,} rows) often stands for none; {way}"


def _of_labels(split: str, labels: Mapping[str, int]) -> Iterator[str]:
    yield from (f"{split}: {sentence}" for sentence in without_value(labels))
    for rare, frequent in alike(labels)[:MOST]:
        names = f"{shown(rare)} ({labels[rare]:,} rows) and {shown(frequent)} ({labels[frequent]:,})"
        alike_in = "differ only in case, width or spaces"
        yield f"{split}: the labels {names} {alike_in}; `labels: {{rename: ...}}` can make them one"
    few = [f"{shown(label)} ({count})" for label, count in labels.items() if count <= FEW]
    if split == "train" and few:
        some = f"{len(few):,} labels with at most {FEW} rows, such as {', '.join(few[:5])}"
        yield f"train has {some}; `labels: {{rename: ...}}` can map them to others"


def _not_in_train(split: str, labels: Mapping[str, int], train: Mapping[str, int]) -> Iterator[str]:
    """The labels of a split that no row of train has, so that no model learns them; none where train has no label."""
    for label in [label for label in labels if train and label not in train][:MOST]:
        yield f"train has no row of {shown(label)}; {split} has {labels[label]:,}"


def alike(labels: Mapping[str, int]) -> list[tuple[str, str]]:
    """Pairs of a label and a more frequent one that differ only in case, width or white space.

    Of two that are as frequent, the one of the usual width stays.
    """
    most: dict[str, str] = {}
    pairs = []
    for label in sorted(labels, key=lambda name: (-labels[name], unicodedata.normalize("NFKC", name) != name)):
        frequent = most.setdefault(_plain(label), label)
        if frequent != label:
            pairs.append((label, frequent))
    return pairs


def _plain(label: str) -> str:
    return "".join(unicodedata.normalize("NFKC", label).casefold().split())
