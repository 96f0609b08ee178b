"""The data for `dvc plots`: a folder of CSV files for each plot, with a file for each run."""

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

Lines = Iterator[tuple[Any, ...]]


def write(out: Path, records: Sequence[dict[str, Any]], pretrained: Sequence[dict[str, Any]]) -> None:
    """Write confusion, calibration and losses of these runs into new folders in `out`."""
    runs = (*records, *pretrained)
    _write(out / "confusion", ("actual", "predicted", "rows"), {r["run"]: _confusion(r) for r in records})
    _write(out / "calibration", ("confidence", "accuracy", "rows"), {r["run"]: _calibration(r) for r in records})
    _write(out / "losses", ("step", "loss"), {r["run"]: _losses(r) for r in runs})


def _confusion(record: dict[str, Any]) -> Lines:
    if "confusion" in record:  # a tagger has classes without it
        names = list(record["classes"])
        for actual, counts in zip(names, record["confusion"], strict=True):
            yield from ((actual, predicted, rows) for predicted, rows in zip(names, counts, strict=True))


def _calibration(record: dict[str, Any]) -> Lines:
    for line in record.get("calibration", {"bins": ()})["bins"]:
        yield line["confidence"], line["accuracy"], line["rows"]


def _losses(record: dict[str, Any]) -> Lines:
    yield from ((step, numbers["loss"]) for step, numbers in record.get("curve", ()) if "loss" in numbers)


def _write(folder: Path, header: tuple[str, ...], runs: dict[str, Lines]) -> None:
    folder.mkdir(parents=True)
    for run, lines in runs.items():
        table = list(lines)
        if table:
            with (folder / f"{run}.csv").open("w", encoding="utf-8", newline="") as file:
                csv.writer(file, lineterminator="\n").writerows([header, *table])
