"""The split of each row where one file holds all rows: by chance, by a column's groups, or by time.

Rows with equal or similar texts come into one split. The order of the rows does not matter, and most rows keep their
split when others are added.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, date, datetime
from typing import Any, NamedTuple

from pipelines.core import seeding
from pipelines.core.errors import InputError, shown
from pipelines.core.schema import INPUTS, TARGETS
from pipelines.data import duplicates
from pipelines.data.own_params import Split
from pipelines.data.own_tables import Read

DIGITS = re.compile(r"\d+", re.ASCII)  # 20260131 and seconds since 1970 are in order as numbers
# as Excel and Japanese offices write dates, with or without a time of day
DATE = re.compile(r"(\d{4})[-/.年](\d{1,2})[-/.月](\d{1,2})日?")
HOUR = re.compile(r"(?<=-\d\d)[\sT]*(\d{1,2})(?=:)")

TOGETHER = {  # whether rows are divided by time -> why a split may have no rows
    False: "rows with similar texts or of one group stay together, and a label needs two such groups; add rows, or "
    "take other shares",
    True: "rows of one time, or with similar texts, stay together; add rows of other times, or take other shares",
}


class _Bundle(NamedTuple):
    """Rows that stay together: their positions, the label that most of them have, and a number to draw them by."""

    rows: list[int]
    label: str
    drawn: int
    time: Any  # of the earliest row


def splits(rows: Iterable[Read], kind: str, rule: Split) -> list[str]:
    """The split of each row: train, dev or test.

    Raises InputError for a time that is no date and no number, and if train or a split of the rule gets no row.
    """
    texts, labels = [], []
    values: list[Any] = []
    are_dates: dict[bool, str] = {}  # whether times are dates -> the first place
    for read in rows:
        texts.append(duplicates.plain(text_of(read.row, kind)))
        labels.append(_stratum(read.row, kind))
        if rule.way == "time":
            is_date, value = time(read)
            are_dates.setdefault(is_date, read.place)
            values.append(value)
        else:
            values.append("" if read.by is None else str(read.by))
    if len(are_dates) > 1:
        raise InputError(
            f"split: the time is a date at {are_dates[True]}, and a number at {are_dates[False]}; write all alike"
        )
    bundles = list(_bundles(texts, labels, values, rule))
    order = sorted(bundles, key=lambda bundle: bundle.drawn)
    if rule.way == "time":
        chosen = _latest(sorted(order, key=lambda bundle: bundle.time), len(texts), rule)
    else:
        chosen = _drawn(order, rule)
    counts = Counter(chosen.values())
    for name in ("train", *rule.made):
        if not counts[name]:
            raise InputError(f"split: {name} gets none of {len(texts):,} rows; {TOGETHER[rule.way == 'time']}")
    return [chosen[i] for i in range(len(texts))]


def text_of(row: dict[str, Any], kind: str) -> str:
    """The text of a row that must not stand in two splits; of a question, its context."""
    parts = [row["context"]] if kind == "span" else [row[name] for name in INPUTS[kind]]
    return "\t".join("\t".join(part) if isinstance(part, list) else part for part in parts)


def _stratum(row: dict[str, Any], kind: str) -> str:
    """The label of a row, within which shares are taken; for other targets, whether there is any."""
    target = row.get(TARGETS[kind]) if kind in TARGETS else None
    return str(target) if isinstance(target, str) else str(bool(target)) if isinstance(target, list) else ""


def time(read: Read) -> tuple[bool, float]:
    """Return whether the time is a date, and its number: as it is, or the date's seconds since 1970.

    A date without a zone is in UTC, so that no machine's own zone changes the order. Raises InputError if the time is
    no date and no number.
    """
    value = read.by
    if isinstance(value, str):
        text = DATE.sub(lambda hit: f"{hit[1]}-{int(hit[2]):02}-{int(hit[3]):02}", value.strip())
        text = HOUR.sub(lambda hit: f"T{int(hit[1]):02}", text)
        try:
            value = float(text) if DIGITS.fullmatch(text) else datetime.fromisoformat(text)
        except ValueError:
            value = _float(text)
    if isinstance(value, datetime):
        return True, (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
    if isinstance(value, date):
        return True, datetime(value.year, value.month, value.day, tzinfo=UTC).timestamp()
    if isinstance(value, int | float) and math.isfinite(value):  # nan has no place in an order
        return False, value
    raise InputError(
        f"split: {read.place}: the time is {shown(read.by)}; a date such as 2026-01-31 or a number is expected"
    )


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _bundles(texts: Sequence[str], labels: list[str], values: list[Any], rule: Split) -> Iterator[_Bundle]:
    together = duplicates.together(texts, values if rule.way == "group" else ())
    members = defaultdict(list)
    for i, number in enumerate(together):
        members[number].append(i)
    for rows in members.values():
        label = min(Counter(labels[i] for i in rows).items(), key=lambda item: (-item[1], item[0]))[0]
        drawn = min(seeding.derive("split", rule.seed, texts[i]) for i in rows)
        yield _Bundle(rows, label, drawn, min(values[i] for i in rows) if rule.way == "time" else None)


def _drawn(order: list[_Bundle], rule: Split) -> dict[int, str]:
    """The split of each row; a label's bundles fill test, then dev, and train takes the others, of every label one."""
    rows, bundles = Counter[str](), Counter(bundle.label for bundle in order)
    for bundle in order:
        rows[bundle.label] += len(bundle.rows)
    room = {
        (name, label): max(1, round(share * count))
        for name, share in (("test", rule.test), ("dev", rule.dev))
        for label, count in rows.items()
        if share
    }
    chosen: dict[int, str] = {}
    for bundle in order:
        fits = (name for name in ("test", "dev") if room.get((name, bundle.label), 0) >= len(bundle.rows))
        split = next(fits, "train") if bundles[bundle.label] > 1 else "train"
        bundles[bundle.label] -= split != "train"
        if split != "train":
            room[split, bundle.label] -= len(bundle.rows)
        chosen |= dict.fromkeys(bundle.rows, split)
    return chosen


def _latest(order: list[_Bundle], count: int, rule: Split) -> dict[int, str]:
    """The split of each row; the last share is the test, the one before it dev. Equal times are not divided."""
    chosen: dict[int, str] = {}
    before = 0
    split = "train"
    last: Any = None
    for bundle in order:
        if bundle.time != last:
            share = before / count
            split = "train" if share < 1 - rule.test - rule.dev else "dev" if share < 1 - rule.test else "test"
        last, before = bundle.time, before + len(bundle.rows)
        chosen |= dict.fromkeys(bundle.rows, split)
    return chosen
