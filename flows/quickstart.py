"""`make run`: from samples to a served model in one run, which stops all that it started."""

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from pipelines.core import params, paths, tables
from pipelines.core.errors import UsageError
from pipelines.core.progress import say
from pipelines.core.schema import TARGETS
from pipelines.core.task import Task
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.graph import checking, executor
from pipelines.reports import report_folder

TO_SCORE, SCORED = Path("state/scored/quickstart-rows.parquet"), Path("state/scored/quickstart.parquet")
T = TypeVar("T")


def quickstart() -> tuple[str, bool]:
    """Run every step on the active params.yaml; returns the summary to print, and whether a champion answered.

    Prefect's server and MLflow's database take long to start; they start beside the graph.
    """
    if not (promoted := checking.check()["promote"]):
        raise UsageError(f"{params.FILE}: no entry of promote, so there is nothing to serve; `bertline new` writes one")
    name = next(iter(promoted))
    entry = params.entry("evaluate", params.entry("promote", name, Promote).run, Evaluate)
    with ThreadPoolExecutor(1) as beside:
        started = beside.submit(_start)
        ran = _timed("the graph", lambda: executor.run([]))
        _timed("Prefect and MLflow, which started beside it", started.result)
        from flows.promote import promote
        from flows.retrain import retrain
        from flows.score import score
        from pipelines.tracking import store

        _timed("MLflow runs, a registered challenger", lambda: retrain([name], ran))
        outcome = _timed("the gate", lambda: promote(name))
        gate = "\n".join(f"gate    {reason}" for reason in outcome.reasons)
        judged = f"\n{report_folder.comparison(params.read())}\n\n{gate}\n"
        if not outcome.champion:
            return f"{judged}{name} has no champion, so its rows are not scored, and nothing is asked", False
        unlabelled = _without_labels(entry)
        count = _timed("batch scoring", lambda: score(name, str(TO_SCORE), str(SCORED)))
        answer = _timed("one request to the service", lambda: _one_request(name, unlabelled))
    return (
        f"{judged}"
        f"asked   {' | '.join(map(str, unlabelled.values()))}\nanswer  {answer}\n"
        f"report  {paths.reports() / 'index.html'}\n"
        f"scored  {SCORED} ({count:,} rows)\n"
        f"MLflow  {store.shown()}"
    ), True


def _start() -> None:
    """Start what the steps after the graph need."""
    from prefect import flow

    from pipelines.tracking import store

    store.connect()
    flow(name="hello")(lambda: None)()  # Prefect starts its server for the first flow


def _without_labels(entry: Evaluate) -> dict[str, Any]:
    """Write the rows of an evaluate entry as a file to score; returns the first."""
    rows = tables.read(paths.rows(entry.task) / f"{entry.split}.parquet")
    unlabelled = rows.drop_columns(TARGETS[Task.load(paths.rows(entry.task)).kind])
    tables.write(TO_SCORE, unlabelled.to_batches(), unlabelled.schema)
    return unlabelled.drop_columns("id").slice(0, 1).to_pylist()[0]


def _one_request(name: str, row: dict[str, Any]) -> str:
    """Let the champion answer one row."""
    from flows.local.http_service import ask, serving
    from pipelines.serving.model_sources import Source

    with serving({name: Source(name)}) as address:
        answer = ask(address, f"/predict/{name}", {"rows": [row]})
    items = answer["predictions"][0].items()
    values = ", ".join(
        f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}" for name, value in items
    )
    return f"{values} ({answer['model']} version {answer['version']})"


def _timed(what: str, work: Callable[[], T]) -> T:
    start = time.monotonic()
    result = work()
    say(f"== {what}: {time.monotonic() - start:.1f} s")
    return result
