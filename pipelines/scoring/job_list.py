"""The scoring jobs below a folder: their states, what they have done, and how fast; and how one is cancelled."""

import os
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.core import json_file, paths
from pipelines.core.errors import InputError
from pipelines.scoring import job_record, manifest

FINISHED, UNDER_WAY, CANCELLED, STOPPED = "finished", "under way", "cancelled", "stopped"  # states


@dataclass(frozen=True)
class Listed:
    """A job as its files show it; times are UTC, in ISO 8601, and empty where an older release wrote none."""

    target: str
    source: str
    model: str
    version: int
    state: str
    partitions: int
    partitions_done: int
    rows: int
    rows_done: int
    rows_per_second: float  # of a process
    begun: str
    ended: str  # of the last partition that was finished

    def answer(self) -> dict[str, Any]:
        """The job for a program."""
        return asdict(self)


def below(place: Path) -> list[Listed]:
    """The jobs in `place` and below it, by their folders. Raises InputError if there is no such folder."""
    if not place.is_dir():
        raise InputError(f"{place}: no such folder")
    return [listed(target) for target in sorted(_targets(place))]


def _targets(place: Path) -> Iterator[Path]:
    for folder, folders, files in os.walk(place):
        if job_record.FILE in files:
            folders.clear()  # a job's folder has answers, no jobs
            yield Path(folder)


def listed(target: Path) -> Listed:
    """The job in `target`. Raises InputError if there is none, or a file of it is damaged."""
    job = required(target)
    rows = sum(one.rows for one in job.partitions)
    path = target / manifest.SUMMARY
    entries = {} if path.is_file() else manifest.read(target)
    summary = json_file.mapping(path) if path.is_file() else manifest.summary(entries.values())
    state = FINISHED if path.is_file() else UNDER_WAY if is_under_way(target) else _ended(target)
    measured = summary[manifest.MEASURED]
    return Listed(
        str(target),
        job.source,
        job.model,
        job.version,
        state,
        len(job.partitions),
        summary["partitions"],
        rows,
        summary["rows"],
        measured["rows_per_second"],
        job.begun,
        measured.get("ended", ""),
    )


def _ended(target: Path) -> str:
    return CANCELLED if (target / job_record.CANCEL).exists() else STOPPED


def required(target: Path) -> job_record.Job:
    """The record of the job in `target`. Raises InputError if there is none."""
    job = job_record.read(target)
    if not job:
        raise InputError(f"{target}: not the folder of a scoring job; bertline jobs FOLDER lists those below a folder")
    return job


def is_under_way(target: Path) -> bool:
    """Return whether a process holds the lock of the job in `target`."""
    return paths.has_writer(target, job_record.LOCK)


def cancel(target: Path) -> None:
    """Ask the process of the job in `target` to end at its next piece. Raises InputError if there is none."""
    required(target)
    if not is_under_way(target):
        raise InputError(f"{target}: no process works on its job; there is nothing to cancel")
    (target / job_record.CANCEL).touch()


def plain(jobs: list[dict[str, Any]]) -> str:
    """The jobs for a person, a line or two each."""
    return "\n".join(_line(job) for job in jobs) or "no scoring jobs"


def _line(job: dict[str, Any]) -> str:
    times = " to ".join(time for time in (job["begun"], job["ended"]) if time)
    return (
        f"{job['target']}: {job['state']}, {job['partitions_done']:,} of {job['partitions']:,} partitions, "
        f"{job['rows_done']:,} of {job['rows']:,} rows by {job['model']} version {job['version']}, "
        f"{job['rows_per_second']:,.0f} rows/s a process{', ' + times if times else ''}"
    )
