"""The difference of two runs as lines for a terminal."""

import json
from collections.abc import Iterator
from typing import Any

from pipelines.core.errors import printable
from pipelines.reports.run_tables import aligned

NOTHING = "-"  # the value of a param that a run does not have
TEXT = 100  # the most characters of an input that are shown
UNITS = {"size_bytes": ("size, MB", 1e-6), "parameters": ("parameters, million", 1e-6)}
UNITS |= {"flops_per_token": ("operations a token, million", 1e-6), "latency_ms": ("latency here, ms", 1.0)}
UNITS |= {"rows_per_second": ("rows a second here", 1.0)}


def plain(difference: dict[str, Any]) -> str:
    """The score, the params, the slices, the rows that changed, and the costs; tables as wide as their cells."""
    first, second = difference["runs"]
    parts = [
        _score(difference),
        *_params(difference),
        _table(
            "slices",
            ("slice", "rows", "metric", first, second, "difference", "95% interval", ""),
            _slices(difference),
            1,
        ),
        *_rows(difference),
        _table("costs", ("", first, second), _costs(difference), 1),
    ]
    return printable("\n\n".join(filter(None, parts)), keep="\n")


def _score(difference: dict[str, Any]) -> str:
    first, second = difference["runs"]
    where = f"{second} against {first} on {difference['task']} {difference['split']}"
    if not (score := difference["score"]):
        return f"{where}: {difference['rows']['all']:,} rows without labels"
    low, high = score["interval"]
    undecided = "which includes 0: undecided" if low <= 0 <= high else "but too few rows differ: undecided"
    verdict = {"won": f"{second} is better", "lost": f"{second} is worse", "open": undecided}
    return (
        f"{where}: {score['metric']} {score['first']:.4f} -> {score['second']:.4f}, "
        f"{_interval(score)}, {verdict[score['verdict']]}"
    )


def _interval(line: dict[str, Any]) -> str:
    low, high = line["interval"]
    return f"difference {line['difference']:+.4f}, 95% interval {low:+.4f} to {high:+.4f}"


def _table(title: str, header: tuple[str, ...], lines: list[tuple[str, ...]], text: int) -> str:
    return f"{title}\n{aligned([header, *lines], text=text)}" if lines else ""


def _params(difference: dict[str, Any]) -> Iterator[str]:
    """The params that differ; of runs of two stages, those that both stages have."""
    lines = difference["params"]
    if another_stage := any(line["param"] == "stage" for line in lines):
        lines = [line for line in lines if NOTHING not in (line["first"], line["second"])]
    more = len(difference["params"]) - len(lines)
    title = f"params that differ{f' ({more} more, which only one stage has: --json)' if another_stage else ''}"
    table: list[tuple[str, ...]] = [(line["param"], as_text(line["first"]), as_text(line["second"])) for line in lines]
    yield _table(title, ("param", *difference["runs"]), table, 3)


def as_text(value: Any) -> str:
    return value if isinstance(value, str) and value else json.dumps(value, ensure_ascii=False)


def _slices(difference: dict[str, Any]) -> list[tuple[str, ...]]:
    marks = {"won": "won", "lost": "lost", "open": ""}
    return [
        (
            line["slice"],
            f"{line['rows']:,}",
            line["metric"],
            f"{line['first']:.3f}",
            f"{line['second']:.3f}",
            f"{line['difference']:+.3f}",
            "{:+.3f} to {:+.3f}".format(*line["interval"]),
            marks[line["verdict"]],
        )
        for line in difference["slices"]
    ]


def _rows(difference: dict[str, Any]) -> Iterator[str]:
    counts = difference["rows"]
    sentence = f"rows: {counts['changed']:,} of {counts['all']:,} answers changed"
    if difference["score"]:
        sentence += f"; {counts['gained']:,} gained, {counts['lost']:,} lost, {counts['neither']:,} neither"
    yield sentence
    for name in ("gained", "lost"):
        if difference[name]:
            lines = [line for row in difference[name] for line in _row(row, difference["runs"])]
            yield "\n".join([f"{name}, {len(difference[name])} of {counts[name]:,}", *lines])


def _row(row: dict[str, Any], runs: list[str]) -> Iterator[str]:
    texts = " / ".join(cut(as_text(text)) for text in row["inputs"].values())
    yield f"  {row['id']}: {texts}"
    answers = (
        f"{name}: {cut(as_text(row[key]))}"
        for name, key in zip(("gold", *runs), ("gold", "first", "second"), strict=True)
    )
    yield f"    {'; '.join(answers)}"


def cut(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= TEXT else f"{line[:TEXT]}..."


def _costs(difference: dict[str, Any]) -> list[tuple[str, ...]]:
    rows = []
    for line in difference["costs"]:
        name, scale = UNITS[line["cost"]]
        values = [None if line[key] is None else line[key] * scale for key in ("first", "second")]
        if any(value is not None for value in values):
            rows.append((name, *("-" if value is None else f"{value:,.2f}" for value in values)))
    return rows
