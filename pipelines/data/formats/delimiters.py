"""The character between the columns of a CSV file, told by its first lines."""

import csv
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from pathlib import Path

from pipelines.data.formats.records import MAX_LINE_BYTES, Opener, lines, plain

KNOWN = (",", "\t", ";", "|")
LINES = 50  # of a file that are looked at


def header(path: Path, delimiter: str, opener: Opener = plain) -> list[str]:
    """The names in a file's first record that is not empty, if its columns are separated by this character."""
    texts = (f"{line}\n" for _, line in lines(path, opener))
    return next(filter(None, _records(texts, delimiter)), [])


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
        names = len(next(filter(None, _records(texts, delimiter)), []))
        if names > 1:
            scores[delimiter] = (counts[names] / counts.total(), names)
    return max(scores, key=lambda delimiter: scores[delimiter], default=",")


def has_quotes(path: Path, opener: Opener = plain) -> bool:
    """Return whether a cell of a file with tabs begins with a quote, which CSV and TSV read in two ways."""
    return any(cell.startswith('"') for _, line in lines(path, opener) for cell in line.split("\t"))


def is_csv(path: Path, opener: Opener = plain) -> bool:
    """Return whether quotes around cells of a file with tabs are those of CSV, and no characters of the cells.

    A quote that is a character is closed nowhere, or only lines below: then fewer records have all columns.
    """
    texts = [line for _, line in lines(path, opener)]
    csv.field_size_limit(MAX_LINE_BYTES)
    reader = csv.reader((f"{line}\n" for line in texts), delimiter="\t", strict=True)
    try:
        widths = [len(fields) for fields in reader if fields]
    except csv.Error:
        return False
    return widths.count(widths[0]) >= sum(line.count("\t") + 1 == widths[0] for line in texts) if widths else False


def _records(texts: Iterable[str], delimiter: str) -> Iterator[list[str]]:
    """The records up to the first that is not CSV."""
    try:
        yield from csv.reader(texts, delimiter=delimiter)
    except csv.Error:
        return
