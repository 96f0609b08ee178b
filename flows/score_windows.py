"""score-windows: a scoring job's windows, each once: those that are due by its schedule, and a backfill of others."""

from collections.abc import Sequence
from datetime import UTC, datetime, time
from pathlib import Path

from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.runtime import flow_run

from flows.failure_hook import HOOKS
from pipelines.core import params, stage
from pipelines.core.errors import InputError, UsageError
from pipelines.core.windows import Window, between, due
from pipelines.entries.score import Score
from pipelines.serving import batch
from pipelines.tracking import registry


@flow(name="score-windows", timeout_seconds=6 * 3600, **HOOKS)
def score_windows(job: str) -> list[str]:
    """Score what is due of a score entry with the champion; returns a line for each window.

    Raises InputError if the file of the newest window is not there yet; prefect.yaml says when it is tried again.
    """
    entry, now = read(job), datetime.now(UTC)
    given = flow_run.scheduled_start_time  # of Prefect's own type
    scheduled = datetime.fromtimestamp(given.timestamp(), UTC) if given else now
    return _score(job, entry, due(first(entry), entry.catch_up, scheduled, now), must=1)


@flow(name="backfill", timeout_seconds=24 * 3600, **HOOKS)
def backfill(job: str, since: str, until: str) -> list[str]:
    """Score the windows from the one named `since` to that of `until` that were not scored; a line for each."""
    entry, now = read(job), datetime.now(UTC)
    begin, end = (Window.named(name, entry.every) for name in (since, until))
    if begin > end:
        raise UsageError(f"--from {since} is after --to {until}")
    if end.end > now:
        raise UsageError(f"--to {until}: the window {end.name} ends on {end.end:%Y-%m-%d %H:%M} UTC only")
    return _score(job, entry, between(max(begin, first(entry)), end), must=0)


def read(job: str) -> Score:
    """A scoring job. Raises InputError if params.yaml has none of that name."""
    return params.entry("score", job, Score)


def first(entry: Score) -> Window:
    """The first window of a job."""
    return Window.at(datetime.combine(entry.since, time(), UTC), entry.every)


def _score(job: str, entry: Score, windows: Sequence[Window], must: int) -> list[str]:
    """Score each window once. What fails does not keep the others; it is raised at the end, as is a missing file of the
    last `must` windows.
    """
    lines, missing, failed = list[str](), list[str](), list[str]()
    with stage.alone("score", job):
        for number, window in enumerate(windows):
            source, target = Path(window.path(entry.source)), Path(window.path(entry.target))
            try:
                if target.is_file():
                    lines.append(f"{window.name}: scored before, {target}")
                elif not source.is_file() and number < len(windows) - must:
                    missing.append(f"{window.name}: no file {source}")
                    lines.append(missing[-1])
                else:
                    rows = score_one.with_options(task_run_name=window.name)(entry, source, target)
                    lines.append(f"{window.name}: {rows:,} rows into {target}")
            except InputError as error:
                failed.append(f"{window.name}: {error}")
    if failed:
        none = [*failed, *missing]
        others = "; ".join(["", *(line for line in lines if line not in missing)])
        raise InputError(f"{job}: {len(none)} of {len(windows)} windows are not scored: {'; '.join(none)}{others}")
    return lines


@task(cache_policy=NO_CACHE)
def score_one(entry: Score, source: Path, target: Path) -> int:
    """Score a window's file with the champion; returns the number of rows."""
    return batch.score(source, target, registry.get(entry.model, registry.CHAMPION), entry.prefix)
