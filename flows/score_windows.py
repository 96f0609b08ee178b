"""score-windows: a scoring job's windows, each once: those that are due by its schedule, and a backfill of others."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows import run_times
from flows.failure_hook import HOOKS
from pipelines.core import params
from pipelines.core.errors import UsageError
from pipelines.core.windows import Window, between, due
from pipelines.entries.score import Score
from pipelines.lifecycle import scored_windows


def _try_again(_task: Any, _run: Any, state: Any) -> bool:
    """Return whether a failed window is tried again within this run; state.data is the error."""
    return scored_windows.may_pass(state.data)


score_one = task(cache_policy=NO_CACHE, retry_condition_fn=_try_again)(scored_windows.score_one)


@flow(name="score-windows", timeout_seconds=6 * 3600, **HOOKS)
def score_windows(job: str) -> list[str]:
    """Score what is due of a score entry with the champion; returns a line for each window.

    Raises InputError if the file of the newest window is not there yet; prefect.yaml says when it is tried again.
    """
    entry = read(job)
    windows = due(scored_windows.first(entry), entry.catch_up, run_times.scheduled(), run_times.first_start())
    return scored_windows.score(job, entry, windows, 1, _score_window)


@flow(name="backfill", timeout_seconds=24 * 3600, **HOOKS)
def backfill(job: str, since: str, until: str) -> list[str]:
    """Score the windows from the one named `since` to that of `until` that were not scored; a line for each."""
    entry, now = read(job), datetime.now(UTC)
    begin, end = (Window.named(name, entry.every) for name in (since, until))
    if begin > end:
        raise UsageError(f"--from {since} is after --to {until}")
    if end.end > now:
        raise UsageError(f"--to {until}: the window {end.name} is not over; it ends on {end.end:%Y-%m-%d %H:%M} UTC")
    windows = between(max(begin, scored_windows.first(entry)), end)
    return scored_windows.score(job, entry, windows, 0, _score_window)


def read(job: str) -> Score:
    """A scoring job. Raises InputError if params.yaml has none of that name."""
    return params.entry("score", job, Score)


def _score_window(window: Window, entry: Score, source: Path, target: Path) -> int:
    """Score a window as a task that has its name."""
    return score_one.with_options(task_run_name=window.name)(entry, source, target)
