"""Tables with a line per run: its kind, score, size and speed on this machine, as plain text and as Markdown."""

import unicodedata
from collections import Counter
from collections.abc import Sequence
from typing import Any

Metrics = dict[str, Any]  # the content of artifacts/metrics/<run>.json
HEADER = ("run", "kind", "task", "metric", "score", "95% interval", "size MB")
TIMED = ("latency ms", "rows/s")
TEXT = 4  # columns of words


def line(record: Metrics) -> tuple[str, ...]:
    """A run's cells under HEADER, with the bootstrap interval. A run that gives all rows one answer is marked."""
    return (
        record["run"],
        record["how"] + (" (one answer)" if "only_answer" in record else ""),
        record["task"],
        record["metric"],
        f"{record['metrics'][record['metric']]:.3f}" if record["metrics"] else "-",
        "{:.3f} to {:.3f}".format(*record["interval"]) if record["metrics"] else "-",
        f"{record['model']['size_bytes'] / 1e6:.1f}",
    )


Part = tuple[tuple[str, ...], list[tuple[str, ...]]]  # a header and its lines


def _with_splits(records: Sequence[Metrics]) -> tuple[Part, int]:
    """A header, a line for each run in order, and the number of columns of words.

    The split is a column where the runs of a task have several.
    """
    order = ranked(records)
    if len({(r["task"], r["split"]) for r in order}) == len({r["task"] for r in order}):
        return (HEADER, [line(record) for record in order]), TEXT
    place = HEADER.index("task") + 1
    cells = [(line(record), record["split"]) for record in order]
    lines = [(*parts[:place], split, *parts[place:]) for parts, split in cells]
    return ((*HEADER[:place], "split", *HEADER[place:]), lines), TEXT + 1


def classes(records: Sequence[Metrics]) -> Part:
    """Precision, recall and F1 of each class in the first record that has classes, and F1 in each of the others."""
    kinds = [record for record in records if record.get("classes")]
    if not kinds:
        return (), []
    first, *others = kinds
    names = [*(f"{what} of {first['run']}" for what in ("precision", "recall")), *(f"F1 of {r['run']}" for r in kinds)]
    lines = [
        (
            name,
            *(f"{numbers[key]:.3f}" for key in ("precision", "recall", "f1")),
            *(_cell(r["classes"].get(name, {}).get("f1")) for r in others),
        )
        for name, numbers in first["classes"].items()
    ]
    return ("class", *names), lines


def slices(records: Sequence[Metrics]) -> Part:
    """The task's metric on slices of the rows: a line for each slice of any record, a column for each record.

    Where entries define a slice of one name by different patterns, the name has the first run of each beside it.
    """
    scores = [{(part["slice"], part.get("pattern")): part for part in r.get("slices", [])} for r in records]
    first = {part: i for i, parts in reversed([*enumerate(scores)]) for part in parts}
    every = [part for i, parts in enumerate(scores) for part in parts if first[part] == i]
    if not every:
        return (), []
    header = ("slice", "rows", *(f"{record['metric']} of {record['run']}" for record in records))
    several = Counter(name for name, _ in every)
    lines: list[tuple[str, ...]] = [
        (
            part[0] if several[part[0]] == 1 else f"{part[0]} ({records[first[part]]['run']})",
            f"{scores[first[part]][part]['rows']:,}",
            *(_cell(of_run.get(part, {}).get("score")) for of_run in scores),
        )
        for part in every
    ]
    return header, lines


def _cell(score: float | None) -> str:
    return "-" if score is None else f"{score:.3f}"


CHECKS = ("run", "behaviour", "kind", "rows", "passed", "asked", "")


def behaviour(records: list[Metrics]) -> list[tuple[str, ...]]:
    """A line under CHECKS for each behaviour check of each run."""
    return [
        (
            record["run"],
            check["name"],
            check["kind"],
            f"{check['rows']:,}",
            f"{check['passed']:.3f}",
            f"{check['at_least']:.3f}",
            "passes" if check["ok"] else "fails",
        )
        for record in records
        for check in record.get("behaviour", [])
    ]


def ranked(records: Sequence[Metrics]) -> list[Metrics]:
    """Sort by task and split, the best first; runs without a score, on a split without labels, come last."""
    return sorted(
        records, key=lambda r: (r["task"], r["split"], -r["metrics"].get(r["metric"], float("-inf")), r["run"])
    )


def points(share: float) -> str:
    """A part of a score in words: 0.01 gives "1 point"."""
    number = f"{100 * share:g}"
    return f"{number} point{'' if number == '1' else 's'}"


def plain(records: list[Metrics]) -> str:
    (header, lines), text = _with_splits(records)
    return aligned([header, *lines], text)


def timed(records: list[Metrics], timings: dict[str, Metrics]) -> str:
    """The table with the speed of each run on this machine: median latency of one row, and rows per second."""
    (header, lines), text = _with_splits(records)
    took = [_took(timings.get(record["run"])) for record in ranked(records)]
    return aligned([(*header, *TIMED), *(a + b for a, b in zip(lines, took, strict=True))], text)


def _took(timing: Metrics | None) -> tuple[str, str]:
    return (f"{timing['latency_ms']['p50']:.2f}", f"{timing['rows_per_second']:,}") if timing else ("-", "-")


def markdown(records: list[Metrics]) -> str:
    (header, lines), text = _with_splits(records)
    return pipes([header, *lines], text)


def aligned(rows: list[tuple[str, ...]], text: int) -> str:
    """A table for a terminal; all but the first `text` columns are aligned right. East Asian letters count as two."""
    widths = [max(width(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join(_pad(cell, widths[i], right=i >= text) for i, cell in enumerate(row)).rstrip() for row in rows
    )


def pipes(rows: list[tuple[str, ...]], text: int) -> str:
    """A Markdown table; `rows` begin with the header. All but the first `text` columns are aligned right."""
    rule = ("---",) * text + ("---:",) * (len(rows[0]) - text)
    return "".join(f"| {' | '.join(row)} |\n" for row in (rows[0], rule, *rows[1:]))


def width(text: str) -> int:
    """The number of columns that `text` takes on a terminal."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def shortened(text: str, most: int) -> str:
    """`text`, cut with an ellipsis if it takes more than `most` columns."""
    if width(text) <= most:
        return text
    text = text[:most]
    while width(text) >= most:
        text = text[:-1]
    return f"{text}…"


def _pad(text: str, columns: int, right: bool) -> str:
    space = " " * (columns - width(text))
    return space + text if right else text + space
