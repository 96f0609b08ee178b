"""Run one entry of prepare: parse a corpus into readable rows, measure their quality and check it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pipelines.core import json_file, params, plugins, provenance, schema, seeding, tables
from pipelines.core.errors import FindingsError, InputError, NoFileError, UsageError, choices
from pipelines.core.progress import say
from pipelines.core.task import Task
from pipelines.data import expectations
from pipelines.entries.prepare import Prepare


def prepare(key: str, entry: Prepare, out: Path, strict: bool) -> None:
    """Write a Parquet file per split, the task and the rows' quality into `out`; `strict`: see `expectations.check`."""
    task, findings, has_rows = parse(key, entry, out)
    if findings and not has_rows:  # without rows there is no quality
        raise FindingsError(findings)
    task.save(out)
    quality = expectations.quality(out, task)
    json_file.write(out / "quality.json", quality)
    expectations.check(quality, entry.expect, f"prepare {key}", strict, findings)
    made_by = entry.model_dump(exclude={"expect"})  # it refuses rows and changes none: no model is trained anew for it
    provenance.write(out, "prepare", made_by, [Path(entry.source)], ("pyarrow",))


def parse(key: str, entry: Prepare, out: Path) -> tuple[Task, list[str], bool]:
    """Write a Parquet file per split into `out`.

    Returns the task, a sentence for each row that it cannot have, and whether each split has rows.
    """
    corpus = plugins.load("pipelines.data.corpora", entry.corpus)
    if corpus.TASKS and entry.task not in corpus.TASKS:
        raise UsageError(f"params.yaml: prepare.{key}.task: {choices('task', entry.task, corpus.TASKS)}")
    options = params.options(entry, corpus.Params, f"prepare.{key}")
    raw = Path(entry.source)
    if not raw.exists():
        raise InputError(f"{raw}: no such file or folder; params.yaml: prepare.{key}.source names it")
    task = _with_splits(corpus.task(raw, entry.task, options), entry.splits, f"params.yaml: prepare.{key}.splits")
    findings: list[str] = []
    has_rows = True
    for split in task.splits:
        rows = _sampled(_collecting(corpus.parse(raw, task, split, options), findings), entry.sample)
        parts = tables.batches(rows, schema.ROWS[task.kind])
        try:
            count = tables.write(out / f"{split}.parquet", parts, schema.ROWS[task.kind])
        except NoFileError as error:
            there_are = ", ".join(task.splits)
            raise NoFileError(f"{error}; list under `splits:` those of {there_are} that you have") from None
        say(f"prepare {key}: {split} has {count:,} rows")
        has_rows = has_rows and bool(count)
    return task, findings, has_rows


def _with_splits(task: Task, names: list[str], where: str) -> Task:
    for split in names:
        if split not in task.splits:
            raise UsageError(f"{where}: {choices('split', split, task.splits)}")
    return task.with_(splits=tuple(names) or task.splits)


def _collecting(rows: Iterator[dict[str, Any]], findings: list[str]) -> Iterator[dict[str, Any]]:
    """The rows; what is wrong with others is added to `findings`, so that a person meets all of it at once."""
    try:
        yield from rows
    except FindingsError as error:
        findings.extend(error.findings)


def _sampled(rows: Iterator[dict[str, Any]], share: float) -> Iterator[dict[str, Any]]:
    """A random share of the rows; each row is drawn by its id, independently of the other rows."""
    return rows if share == 1 else (row for row in rows if seeding.derive("sample", row["id"]) < share * 2**63)
