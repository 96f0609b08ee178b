"""The report of the runs in params.yaml: a folder with an HTML page, two tables and the data for `dvc plots`."""

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from pipelines.core import json_file, metrics_file, params, paths
from pipelines.core.errors import InputError
from pipelines.reports import doubtful_runs, dvc_plots, page, run_tables, variants

Sections = Mapping[str, Mapping[str, Any]]
Records = list[dict[str, Any]]  # contents of artifacts/metrics/<run>.json


def write(out: Path, sections: Sections) -> None:
    """Write index.html, table.md, table.txt and the data for `dvc plots` into `out`.

    Args:
        sections: the sections of params.yaml.

    Raises:
        InputError: a run has no metrics yet.
    """
    runs, encoders = names(sections, "evaluate", "baseline"), names(sections, "pretrain")
    if not (runs or encoders):
        raise InputError(f"{params.FILE}: no metrics to report; evaluate and pretrain write them")
    records, pretrained = read(runs), read(encoders)
    files = {record["task"]: paths.rows(record["task"]) / "quality.json" for record in records}
    qualities = {task: json_file.mapping(file) for task, file in files.items() if file.is_file()}
    (out / "index.html").write_text(page.html(records, qualities, pretrained), encoding="utf-8")
    dvc_plots.write(out / "plots", records, pretrained)
    compressed = variants.groups(records)
    markdown = [run_tables.markdown(records), *(variants.markdown(group) for group in compressed)]
    plain = [run_tables.plain(records) + "\n", *(variants.plain(group) for group in compressed)]
    (out / "table.md").write_text("\n".join(markdown), encoding="utf-8")
    (out / "table.txt").write_text("\n".join(plain), encoding="utf-8")


def comparison(sections: Sections) -> str:
    """A table for a terminal of all evaluated runs, with their speed if it was measured on this machine.

    Below the table, name the runs that are smaller than their teacher, but slower. Raises InputError if no run has
    been evaluated.
    """
    records, timings = _evaluated(sections)
    slower = [sentence for group in variants.groups(records) if (sentence := variants.slower(group, timings))]
    return "\n\n".join([run_tables.timed(records, timings), *slower])


def compared(sections: Sections) -> Records:
    """The runs of the same table, in its order, as JSON; what was not measured here is None."""
    records, timings = _evaluated(sections)
    return [
        {
            "run": record["run"],
            "kind": record["how"],
            "task": record["task"],
            "split": record["split"],
            "metric": record["metric"],
            "score": record["metrics"].get(record["metric"]),
            "interval": record.get("interval"),
            "size_bytes": record["model"]["size_bytes"],
            "latency_ms": timings.get(record["run"], {}).get("latency_ms", {}).get("p50"),
            "rows_per_second": timings.get(record["run"], {}).get("rows_per_second"),
        }
        for record in run_tables.ranked(records)
    ]


def _evaluated(sections: Sections) -> tuple[Records, dict[str, dict[str, Any]]]:
    """The records of all evaluated runs, and the timings of those that were measured here."""
    runs = [run for run in names(sections, "evaluate", "baseline") if paths.metrics(run).is_file()]
    if not runs:
        raise InputError(f"{paths.metrics('NAME')}: no run has been evaluated yet; run `dvc repro`")
    timings = {run: json_file.mapping(paths.timings(run)) for run in runs if paths.timings(run).is_file()}
    return read(runs), timings


def doubts(sections: Sections, scored: Collection[str]) -> list[str]:
    """A sentence for each run that has learned nothing, or less than its baseline, if it or the baseline is `scored`.

    Args:
        scored: names of runs and baselines.
    """
    runs = [run for run in names(sections, "evaluate", "baseline") if paths.metrics(run).is_file()]
    records = read(runs)
    concerned = {record["task"] for record in records if record["run"] in scored}
    return doubtful_runs.sentences([record for record in records if record["task"] in concerned])


def names(sections: Sections, *chosen: str) -> list[str]:
    """The names of the entries in the `chosen` sections of params.yaml."""
    return [name for section in chosen for name in sections.get(section) or {}]


def read(runs: list[str]) -> Records:
    """Read the metrics of these runs. Raises InputError if a run has none, or lacks a key of them."""
    for run in runs:
        if not paths.metrics(run).is_file():
            raise InputError(f"{paths.metrics(run)}: no metrics to report; evaluate and pretrain write them")
    return [metrics_file.read(run) for run in runs]
