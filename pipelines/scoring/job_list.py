"""The scoring jobs below a folder: their states, what they have done, and how fast; and how one is cancelled."""

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pipelines.core.errors import InputError, one_line
from pipelines.scoring import job_folders, job_record, manifest
from pipelines.scoring.job_folders import Folder

FINISHED, UNDER_WAY, CANCELLED, STOPPED = "finished", "under way", "cancelled", "stopped"  # states
DAMAGED = "damaged: "  # the state of a job whose files cannot be read, before the reason


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


def below(place: Path | str) -> list[Listed]:
    """The jobs in `place` and below it, by their folders; one that is damaged has only its state.

    Raises InputError if there is no such folder.
    """
    with job_folders.opened(place) as folder:
        return [_listed_or_damaged(target) for target in sorted(folder.jobs())]


def _listed_or_damaged(name: str) -> Listed:
    try:
        return listed(name)
    except (InputError, OSError) as error:
        return Listed(
            target=name,
            source="",
            model="",
            version=0,
            state=f"{DAMAGED}{one_line(error)}",
            partitions=0,
            partitions_done=0,
            rows=0,
            rows_done=0,
            rows_per_second=0.0,
            begun="",
            ended="",
        )


def listed(name: Path | str) -> Listed:
    """The job in a folder. Raises InputError if there is none, or a file of it is damaged."""
    with job_folders.opened(name) as target:
        return _listed(target)


def _listed(target: Folder) -> Listed:
    target.update()
    job = _required(target)
    rows = sum(one.rows for one in job.partitions)
    path = target.path / manifest.SUMMARY
    entries = {} if path.is_file() else manifest.read(target.path)
    summary = manifest.read_summary(path) if path.is_file() else manifest.summary(entries.values())
    state = FINISHED if path.is_file() else UNDER_WAY if target.has_writer() else _ended(target)
    measured = summary[manifest.MEASURED]
    return Listed(
        target=str(target),
        source=job.source,
        model=job.model,
        version=job.version,
        state=state,
        partitions=len(job.partitions),
        partitions_done=summary["partitions"],
        rows=rows,
        rows_done=summary["rows"],
        rows_per_second=measured["rows_per_second"],
        begun=job.begun,
        ended=measured.get("ended", ""),
    )


def _ended(target: Folder) -> str:
    return CANCELLED if target.is_cancelled() else STOPPED


def required(name: Path | str) -> job_record.Job:
    """The record of the job in a folder. Raises InputError if there is none."""
    with job_folders.opened(name) as target:
        target.update()
        return _required(target)


def _required(target: Folder) -> job_record.Job:
    job = job_record.read(target.path)
    if not job:
        raise InputError(f"{target}: not the folder of a scoring job; bertline jobs FOLDER lists those below a folder")
    return job


def cancel(name: Path | str) -> None:
    """Ask the process of the job in a folder to end at its next piece. Raises InputError if there is none."""
    with job_folders.opened(name) as target:
        target.update()
        _required(target)
        if not target.has_writer():
            raise InputError(f"{target}: no process works on its job; there is nothing to cancel")
        target.cancel()


def plain(jobs: list[dict[str, Any]]) -> str:
    """The jobs for a person, a line or two each."""
    return "\n".join(_line(job) for job in jobs) or "no scoring jobs"


def _line(job: dict[str, Any]) -> str:
    if job["state"].startswith(DAMAGED):
        return f"{job['target']}: {job['state']}"
    times = " to ".join(time for time in (job["begun"], job["ended"]) if time)
    return (
        f"{job['target']}: {job['state']}, {job['partitions_done']:,} of {job['partitions']:,} partitions, "
        f"{job['rows_done']:,} of {job['rows']:,} rows by {job['model']} version {job['version']}, "
        f"{job['rows_per_second']:,.0f} rows/s a process{', ' + times if times else ''}"
    )
