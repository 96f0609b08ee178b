"""The audit of a scoring job: from its files alone, whether any row is lost, doubled or changed since it was scored.

It compares each file with its digest in the manifest, and the manifest with its Merkle root. Of each partition, every
row number must stand exactly once, in its answers or in the quarantine.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core import json_file, paths, provenance
from pipelines.core.errors import InputError, one_line
from pipelines.core.progress import progress
from pipelines.scoring import job_folders, job_record, manifest, quarantine
from pipelines.scoring.job_folders import Folder, GoneError
from pipelines.scoring.job_record import Job, Planned
from pipelines.scoring.manifest import Entry


@dataclass(frozen=True)
class Audit:
    """The result of an audit: a sentence for each finding, and how many inputs were there to be compared."""

    target: str
    summary: dict[str, Any]
    findings: list[str]
    inputs: int

    @property
    def ok(self) -> bool:
        return not self.findings

    def answer(self) -> dict[str, Any]:
        """The audit for a program."""
        return {"ok": self.ok, "findings": self.findings, "inputs_compared": self.inputs, "summary": self.summary}


def plain(answer: dict[str, Any]) -> str:
    """The audit for a person."""
    done = answer["summary"]
    if answer["findings"]:
        return "\n".join([*answer["findings"], f"not as recorded: {len(answer['findings']):,} findings"])
    return (
        f"{done['rows']:,} rows in {done['partitions']:,} partitions: {done['scored']:,} scored by {done['model']} "
        f"version {done['version']}, {done['quarantined']:,} in quarantine, each once; root {done['root']}; "
        f"{answer['inputs_compared']:,} of {done['partitions']:,} inputs are still there, unchanged"
    )


def audit(target: Path | str) -> Audit:
    """Audit the job in the folder `target`, of this machine or s3://. Raises InputError if there is none."""
    with job_folders.opened(target) as folder:
        return of(folder)


def of(target: Folder) -> Audit:
    """Audit the job in `target`. Raises InputError if there is none."""
    target.update()
    job = job_record.read(target.path)
    if not job:
        raise InputError(f"{target}: no {job_record.FILE}; it is not the folder of a scoring job of several files")
    findings: list[str] = []
    entries: dict[str, Entry] = {}
    for file in manifest.files(target.path):
        try:
            entries[file.stem] = manifest.read_entry(file)
        except InputError as error:
            findings.append(str(error))
    summary, wrong = summary_findings(target.path, entries)
    findings += [*wrong, *plan_findings(job, entries)]
    inputs = 0
    by_source: dict[str, list[Entry]] = {}
    for entry in entries.values():
        by_source.setdefault(entry["source"], []).append(entry)
    with job_folders.opened(job.source) as source, progress("verifying", len(job.partitions), "partitions") as advance:
        for number, one in enumerate(job.partitions, start=1):
            findings += _partition_findings(target, job, one, by_source.get(one.name, []))
            if (digest := _input_digest(source, one)) is not None:
                inputs += 1
                if digest != one.digest:
                    place = source.shown(str(source.place(one.name)))
                    findings.append(f"{place}: its bytes are others than when it was scored")
            advance(number)
    findings += _others(target, entries)
    return Audit(str(target), summary, [target.shown(line) for line in findings], inputs)


def _input_digest(source: Folder, planned: Planned) -> str | None:
    """The digest of a partition as it is now; None if it is not there."""
    path = source.place(planned.name)
    if path != source.path:
        paths.below(source.path, planned.name)
    try:
        with source.having(planned.name):
            return provenance.sha256(path) if path.is_file() else None
    except GoneError:
        return None


def summary_findings(target: Path, entries: dict[str, Entry]) -> tuple[dict[str, Any], list[str]]:
    """The summary of the job, and where it is not that of the entries."""
    path = target / manifest.SUMMARY
    if not path.is_file():
        return {}, [f"{path}: missing; the job is not finished"]
    summary, findings = json_file.mapping(path), []
    again = manifest.summary(entries.values()) if entries else {}
    for name in again.keys() | summary.keys():
        if name != manifest.MEASURED and summary.get(name) != again.get(name):
            findings.append(f"{path}: {name} is {summary.get(name)!r}; the entries give {again.get(name)!r}")
    return summary, findings


def plan_findings(job: Job, entries: dict[str, Entry]) -> Iterator[str]:
    """Partitions of the job's record that no entry names, or several do, or another version scored."""
    planned = {one.name for one in job.partitions}
    count = dict.fromkeys(planned, 0)
    for name, entry in entries.items():
        source = entry["source"]
        if source not in planned:
            yield f"{manifest.FOLDER}/{name}.json: it is of {source}, which is not of the job"
            continue
        count[source] += entry["kind"] == manifest.PARTITION
        for key, value in (("model", job.model), ("version", job.version), ("model_digest", job.model_digest)):
            if entry[key] != value:
                yield f"{source}: {key} {entry[key]!r} is recorded; the job began with {value!r}"
        if entry["key"] != manifest.key(entry["source_digest"], job.model_digest, job.params):
            yield f"{source}: its key is not that of its input, model and params"
    for source, times in count.items():
        if times != 1:
            yield f"{source}: {'no entry' if not times else f'{times} entries'} of the manifest"


def _partition_findings(target: Folder, job: Job, planned: Planned, entries: list[Entry]) -> Iterator[str]:
    """The findings about one partition and its replays."""
    scored: list[np.ndarray] = []
    replayed: list[np.ndarray] = []
    in_quarantine: list[np.ndarray] = []
    for entry in entries:
        is_replay = entry["kind"] == manifest.REPLAY
        if not is_replay and (entry["rows"], entry["source_digest"]) != (planned.rows, planned.digest):
            yield f"{planned.name}: its rows or its digest are others than when the job began"
        bad, states = ([entry[name]] if entry.get(name) else [] for name in ("quarantine", "states"))
        try:
            with target.having(entry["output"], *bad, *states):
                _require_digest(target.path, entry["output"], entry["output_digest"])
                (replayed if is_replay else scored).extend(_row_numbers(target.path, job, entry, planned.rows))
                for name in states:
                    _require_digest(target.path, name, entry.get("states_digest"))
                for name in bad:
                    _require_digest(target.path, name, entry.get("quarantine_digest"))
                    lines = quarantine.read(paths.below(target.path, name))
                    in_quarantine.append(_of_partition(np.array([line["row"] for line in lines]), name, planned.rows))
        except InputError as error:
            yield str(error)
            return
    if entries:
        yield from _count_findings(planned, *map(_joined, (scored, in_quarantine, replayed)))


def _joined(numbers: list[np.ndarray]) -> np.ndarray:
    return np.concatenate([np.zeros(0, np.int64), *numbers])


def _count_findings(
    planned: Planned, scored: np.ndarray, in_quarantine: np.ndarray, replayed: np.ndarray
) -> Iterator[str]:
    """Rows that stand nowhere, or twice; each array has row numbers of the partition.

    Memory grows with the rows that are there, not with the number that a job's record claims.
    """
    there, times = np.unique(np.concatenate([scored, in_quarantine]), return_counts=True)
    again, replays = np.unique(replayed, return_counts=True)
    waiting = np.sort(in_quarantine)
    allowed = np.searchsorted(waiting, again, "right") - np.searchsorted(waiting, again, "left")
    gaps = np.flatnonzero(there != np.arange(len(there)))
    for what, count, first in (
        ("lost", planned.rows - len(there), gaps[:1] if len(gaps) else [len(there)]),
        ("doubled", *_several(np.union1d(there[times > 1], again[replays > 1]))),
        ("replayed without having been in quarantine", *_several(again[replays > allowed])),
    ):
        if count:
            yield f"{planned.name}: {count:,} rows are {what}, the first is row {first[0]}"


def _several(rows: np.ndarray) -> tuple[int, np.ndarray]:
    return len(rows), rows[:1]


def _require_digest(target: Path, name: str, digest: str | None) -> None:
    """Raise InputError unless a file of the job has the digest that is recorded."""
    path = paths.below(target, name)
    if not path.is_file():
        raise InputError(f"{path}: missing")
    if provenance.sha256(path) != digest:
        raise InputError(f"{path}: its bytes are not those that were written")


def _row_numbers(target: Path, job: Job, entry: Entry, rows: int) -> list[np.ndarray]:
    """The row numbers of an output, each of a partition of `rows` rows; InputError for rows of another version."""
    path = paths.below(target, entry["output"])
    number, version, digest = (f"{job.prefix}{name}" for name in ("row_number", "model_version", "model_digest"))
    pieces: list[np.ndarray] = []
    try:
        file = pq.ParquetFile(path, pre_buffer=False)
        for batch in file.iter_batches(batch_size=1 << 16, columns=[number, version, digest]):
            pieces.append(_of_partition(batch.column(number).to_numpy(), entry["output"], rows))
            versions = set(batch.column(version).unique().to_pylist())
            if versions - {job.version} or set(batch.column(digest).unique().to_pylist()) - {job.model_digest}:
                raise InputError(f"{path}: rows of another version than {job.version} are in it")
    except (pa.ArrowException, OSError, KeyError) as error:
        raise InputError(f"{path}: it cannot be read ({one_line(error)})") from None
    if sum(map(len, pieces)) != entry["scored"]:
        raise InputError(f"{path}: {sum(map(len, pieces)):,} rows; {entry['scored']:,} are recorded")
    return pieces


def _of_partition(numbers: np.ndarray, name: str, rows: int) -> np.ndarray:
    """Row numbers of a file as integers. Raises InputError for a number that no row of the partition has."""
    whole = numbers.dtype.kind in "iuO"  # O: numbers of a JSON file that are too large for 64 bits
    if len(numbers) and not (whole and numbers.min() >= 0 and numbers.max() < rows):
        raise InputError(f"{name}: a row number is not of the {rows:,} rows of the partition")
    return numbers.astype(np.int64)


def _others(target: Folder, entries: dict[str, Entry]) -> Iterator[str]:
    """Files among the answers that the manifest does not name: a reader of the folder would read them too."""
    named = {entry["output"] for entry in entries.values()}
    for name in target.names():
        if name not in named:
            yield f"{target.place(name)}: the manifest does not name it"
