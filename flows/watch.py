"""watch: how far each scored window of a job has drifted from its model's profile, and whether that is an alarm."""

from pathlib import Path

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows import prefect_events
from flows.failure_hook import HOOKS
from pipelines.core import params
from pipelines.entries.score import Score
from pipelines.entries.watch import Watch
from pipelines.lifecycle import window_drift

# most that fails here fails again; the flow is tried again in any case
measure = task(cache_policy=NO_CACHE, retries=0)(window_drift.measure)


@flow(name="watch", timeout_seconds=3600, **HOOKS)
def watch(job: str) -> window_drift.Watched:
    """Measure the scored windows of a job that were not measured yet; tell the others if it is an alarm."""
    rules, entry = params.entry("watch", job, Watch), params.entry("score", job, Score)

    def tell(window: str) -> None:
        prefect_events.tell_once(f"drift {job}", window, "drift", entry.model, job=job, window=window)

    return window_drift.watch(job, entry, rules, _measure, tell)


def _measure(file: Path, entry: Score, rules: Watch, window: str, target: Path) -> window_drift.Lines:
    """Measure a window as a task that has its name."""
    return measure.with_options(task_run_name=window)(file, entry, rules, window, target)
