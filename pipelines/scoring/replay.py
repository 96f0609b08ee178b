"""Replays: bad rows of a finished job that somebody has mended, scored by the version that the job began with.

A mended row is a line of JSON with the `source` and `row` of a quarantine file, and the row's `values` by column.
"""

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core import paths, provenance, tables
from pipelines.core.errors import InputError, listed, one_line
from pipelines.core.task import Task
from pipelines.inference.predictor import Predictor
from pipelines.scoring import (
    columns,
    durable,
    job_folders,
    job_record,
    manifest,
    partition_scoring,
    pieces,
    quarantine,
    source_rows,
)
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.job_record import Job, Planned
from pipelines.scoring.manifest import Entry
from pipelines.scoring.mended_values import fitted
from pipelines.scoring.partition_scoring import PieceScorer
from pipelines.scoring.pieces import Piece
from pipelines.scoring.quarantine import Bad
from pipelines.scoring.text_records import Record
from pipelines.tracking import registry

STATUS = "replayed"


@dataclass(frozen=True)
class Replay:
    """The end of a replay: the rows that it scored, those that are still bad, and the summary of the whole job."""

    target: str
    scored: int
    bad: list[str]  # a sentence each
    summary: dict[str, Any]

    def sentence(self) -> str:
        """The replay in words."""
        left = f"{self.summary['quarantined']:,} rows are left in quarantine"
        bad = f"; still bad: {listed(self.bad)}" if self.bad else ""
        return f"{self.scored:,} mended rows scored into {self.target}; {left}{bad}"


def run(mended: Path, target: Path | str, model: str, commit: str = "") -> Replay:
    """Score the mended rows of a file of JSON lines into new files of the job in `target`.

    Rows that were replayed before are left out, so a replay may be repeated. If the job's answers have receipts, those
    of these rows name `commit`, that of the code that runs. Raises InputError, and scores nothing, if the job is not
    finished, a line is no row of its quarantine, or values do not fit their columns.
    """
    with job_folders.opened(target) as folder:
        folder.update()
        _job(folder, model)  # the lock would make a folder that is not there
        with folder.sole_writer():
            return _run(mended, folder, model, commit)


def _run(mended: Path, target: Folder, model: str, commit: str) -> Replay:
    """Replay into a folder whose lock this process holds."""
    target.update()
    job, entries = _finished(target, model)
    by_source = _mended(mended, target, job, entries)
    version = job_record.version(job, target)
    folder = registry.folder(version)
    if provenance.content_digest(folder) != job.model_digest:
        raise InputError(f"{version}: its files are others than when the job began")
    signer = job.signer()
    signer = replace(signer, commit=commit) if signer else None
    mended_pieces, bad = _pieces(by_source, target, job, Task.load(folder), entries)  # all, before one is published
    scored = 0
    target.aside.mkdir(exist_ok=True)
    if mended_pieces:
        scorer = PieceScorer(Predictor.load(folder), replace(job, states=""), STATUS, signer=signer)
        for planned, piece in mended_pieces:
            entry = _scored(scorer, job, planned, piece, target, entries)
            name = _name(entries)
            manifest.write(target, name, entry)
            entries[name] = entry
            scored += entry["scored"]
    summary = manifest.summary(entries.values())
    target.write_json(manifest.SUMMARY, summary)
    shutil.rmtree(target.aside, ignore_errors=True)
    return Replay(str(target), scored, bad, summary)


def _job(target: Folder, model: str) -> Job:
    """The job in `target`. Raises InputError if there is none of this model."""
    job = job_record.read(target.path)
    if not job or job.model != model:
        raise InputError(f"{target}: not the folder of a scoring job of {model}")
    return job


def _finished(target: Folder, model: str) -> tuple[Job, dict[str, Entry]]:
    """The job in `target` and its entries. Raises InputError unless all its partitions are scored."""
    job, entries = _job(target, model), manifest.read(target.path)
    done = {entry["source"] for entry in entries.values() if entry["kind"] == manifest.PARTITION}
    if missing := [one.name for one in job.partitions if one.name not in done]:
        raise InputError(f"{target}: {len(missing):,} partitions are not scored yet; run its job again first")
    return job, entries


def _name(entries: dict[str, Entry]) -> str:
    """The name of the next entry of a replay."""
    return f"replay-{sum(entry['kind'] == manifest.REPLAY for entry in entries.values()) + 1:06d}"


def _mended(path: Path, target: Folder, job: Job, entries: dict[str, Entry]) -> dict[str, dict[int, Any]]:
    """The values of the mended rows by source and number, without those that were replayed before."""
    if not path.is_file():
        raise InputError(f"{path}: no such file; a file of JSON lines with mended rows is expected")
    by_source: dict[str, dict[int, Any]] = {}
    for line in quarantine.read(path):
        if "values" in line:
            rows = by_source.setdefault(line["source"], {})
            if line["row"] in rows or not isinstance(line["values"], dict):
                raise InputError(f"{path}: row {line['row']} of {line['source']}: twice, or its values are no object")
            rows[line["row"]] = line["values"]
    if not by_source:
        raise InputError(f"{path}: no line has `values`, the values of a mended row by column")
    for source, rows in by_source.items():
        entries_of = [entry for entry in entries.values() if entry["source"] == source]
        bad = {line["row"] for entry in entries_of if entry.get("quarantine") for line in _lines(target, entry)}
        if strange := sorted(rows.keys() - bad):
            raise InputError(f"{path}: row {strange[0]} of {source}: not in the quarantine of {target}")
        for number in _replayed(target, job, entries_of):
            rows.pop(number, None)
    return {source: rows for source, rows in by_source.items() if rows}


def _lines(target: Folder, entry: Entry) -> Iterator[dict[str, Any]]:
    with target.having(entry["quarantine"]):
        yield from quarantine.read(paths.below(target.path, entry["quarantine"]))


def _replayed(target: Folder, job: Job, entries: list[Entry]) -> Iterator[int]:
    """The numbers of a partition's rows that were replayed before."""
    for entry in entries:
        if entry["kind"] == manifest.REPLAY:
            number = f"{job.prefix}row_number"
            with target.having(entry["output"]):
                rows = tables.read(paths.below(target.path, entry["output"]), [number])
            yield from rows.column(number).to_pylist()


def _pieces(
    by_source: dict[str, dict[int, Any]], target: Folder, job: Job, task: Task, entries: dict[str, Entry]
) -> tuple[list[tuple[Planned, Piece]], list[str]]:
    """The mended rows that can be scored, by their partitions, and a sentence about each of the others."""
    added = partition_scoring.added(task.kind, job.prefix, bool(job.receipts))
    good, bad = list[tuple[Planned, Piece]](), list[str]()
    for source, rows in sorted(by_source.items()):
        planned, output = next(one for one in job.partitions if one.name == source), _first(source, entries)["output"]
        with target.having(output):
            stored = tables.open_parquet(paths.below(target.path, output)).schema_arrow
        fields = pa.schema([field for field in stored if field.name not in added], stored.metadata)
        whole = source_rows.completed(rows, fields.names, job, planned, task)
        piece = _piece(whole, fields, planned, task, job.longest)
        bad += [f"row {one.row} of {source}: {one.sentence}" for one in piece.bad]
        if len(piece.numbers):
            good.append((planned, piece))
    return good, bad


def _first(source: str, entries: dict[str, Entry]) -> Entry:
    """The entry of a partition, before any replay."""
    return next(e for e in entries.values() if e["source"] == source and e["kind"] == manifest.PARTITION)


def _scored(
    scorer: PieceScorer, job: Job, planned: Planned, piece: Piece, target: Folder, entries: dict[str, Entry]
) -> Entry:
    """Score the mended rows of one partition into a file beside its answers."""
    began, cpu_began = time.monotonic(), time.process_time()
    first, fields = _first(planned.name, entries), piece.rows.schema
    number = sum(e["kind"] == manifest.REPLAY and e["source"] == planned.name for e in entries.values()) + 1
    output = f"{first['output'].removesuffix('.parquet')}.replayed-{number}.parquet"
    if any(entry["output"] == output for entry in entries.values()):
        raise InputError(f"{target}: an answer of the job has the name {output} already")
    file, bad_file = (target.aside / name for name in ("replay.parquet", "replay.jsonl"))
    with durable.written(target.path / output):
        partition_scoring.write(scorer, fields, iter([piece]), file, bad_file, planned.name, lambda done: None)
        entry = partition_scoring.entry_of(job, manifest.REPLAY, planned.name, planned.digest, file, output)
        target.publish(file, output)
    count = len(piece.numbers)
    entry |= {"rows": count, "scored": count, "quarantined": 0}
    entry[manifest.MEASURED] = manifest.measured(
        count, time.monotonic() - began, time.process_time() - cpu_began, ended=manifest.now()
    )
    return entry


def _piece(rows: dict[int, Any], fields: pa.Schema, planned: Planned, task: Task, longest: int) -> Piece:
    """The mended rows as a piece with the columns of the partition's answers."""
    good, bad = list[Record](), list[Bad]()
    for number, values in sorted(rows.items()):
        raw = json.dumps(values, default=str).encode()  # also half of a surrogate pair
        record = Record(number, values, raw[:1000], 0)
        fault = pieces.input_fault(record, task)
        if fault:
            bad.append(fault)
        else:
            good.append(record)
    input_types = columns.inputs(task.kind)
    arrays = {}
    for field in fields:
        try:
            column = [fitted(record.values.get(field.name), field.type) for record in good]
            if field.name in planned.forms and planned.forms[field.name] != "text":
                arrays[field.name] = columns.array(field.name, column, planned.forms).cast(field.type)
            else:
                arrays[field.name] = pa.array(column, input_types.get(field.name, field.type)).cast(field.type)
        except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
            raise InputError(f"{planned.name}: mended values of the column {field.name!r}: {one_line(error)}") from None
        if not field.nullable and None in column:
            row = good[column.index(None)].row
            raise InputError(f"row {row} of {planned.name}: the column {field.name!r} must have a value")
    for record in good:
        if strange := sorted(record.values.keys() - set(fields.names)):
            raise InputError(f"row {record.row} of {planned.name}: the partition has no column {strange[0]!r}")
    numbers = np.array([record.row for record in good], np.int64)
    return pieces.checked(pa.table(arrays, schema=fields), numbers, bad, task, longest)
