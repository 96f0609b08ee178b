"""The character between the columns of a CSV file, told by its first lines."""

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path

from pipelines.data.formats.records import Opener, lines, plain

KNOWN = (",", "\t", ";", "|")
LINES = 50  # of a file that are looked at


def header(path: Path, delimiter: str, opener: Opener = plain) -> list[str]:
    """The names in a file's first line if its columns are separated by this character."""
    first = next((line for _, line in lines(path, opener)), "")
    return next(_records([first], delimiter), [])


def separating(path: Path, delimiter: str, columns: Collection[str], opener: Opener = plain) -> str:
    """The character that would give the header all of `columns`; "" if `delimiter` does, or if no other one does."""
    if {*columns} <= {*header(path, delimiter, opener)}:
        return ""
    others = (other for other in KNOWN if other != delimiter)
    return next((other for other in others if {*columns} <= {*header(path, other, opener)}), "")


def likeliest(path: Path, opener: Opener = plain) -> str:
    """The character that cuts most of the first records into as many fields as the header has, which are two or more.

    It is "," if none does.
    """
    texts = [f"{line}\n" for _, line in islice(lines(path, opener), LINES)]
    scores: dict[str, tuple[float, int]] = {}
    for delimiter in KNOWN:
        counts = Counter(len(fields) for fields in _records(texts, delimiter) if fields)
        names = len(next(_records(texts, delimiter), []))
        if names > 1:
            scores[delimiter] = (counts[names] / counts.total(), names)
    return max(scores, key=lambda delimiter: scores[delimiter], default=",")


def _records(texts: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """The records up to the first that is not CSV."""
    try:
        yield from csv.reader(texts, delimiter=delimiter)
    except csv.Error:
        return
