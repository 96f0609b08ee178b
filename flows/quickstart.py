"""`make run`: from samples to a served model in one run, which stops all that it started."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from prefect import flow

from flows.promote import promote
from flows.retrain import retrain
from flows.score import score
from flows.serve import ask, serving
from pipelines.core import checking, params, paths, tables
from pipelines.core.progress import say
from pipelines.core.schema import TARGETS
from pipelines.core.task import Task
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.reports import writing
from pipelines.tracking import store

TO_SCORE, SCORED = Path("state/scored/quickstart-rows.parquet"), Path("state/scored/quickstart.parquet")
T = TypeVar("T")


@flow(name="quickstart")
def quickstart() -> str:
    """Run every step on the active params.yaml; returns the summary to print."""
    name = next(iter(checking.check()["promote"]))
    run = params.entry("promote", name, Promote).run
    _timed("the graph, MLflow runs, a registered challenger", lambda: retrain([name]))
    outcome = _timed("the gate", lambda: promote(name))
    entry = params.entry("evaluate", run, Evaluate)
    rows = tables.read(paths.rows(entry.task) / f"{entry.split}.parquet")
    unlabelled = rows.drop_columns(TARGETS[Task.load(paths.rows(entry.task)).kind])
    tables.write(TO_SCORE, unlabelled.to_batches(), unlabelled.schema)
    count = _timed("batch scoring", lambda: score(name, str(TO_SCORE), str(SCORED)))
    first = unlabelled.drop_columns("id").slice(0, 1).to_pylist()[0]
    answer = _timed("one request to the service", lambda: _one_request(name, first))
    table = writing.comparison()
    gate = "\n".join(f"gate    {reason}" for reason in outcome.reasons)
    return (
        f"\n{table}\n\n{gate}\n"
        f"asked   {' | '.join(map(str, first.values()))}\nanswer  {answer}\n"
        f"report  {paths.reports() / 'index.html'}\n"
        f"scored  {SCORED} ({count:,} rows)\n"
        f"MLflow  {store.uri()}"
    )


def _one_request(name: str, row: dict[str, Any]) -> str:
    """Serve the champion, send it one row, stop it."""
    with serving(name) as address:
        answer = ask(address, "/predict", {"rows": [row]})
    items = answer["predictions"][0].items()
    said = ", ".join(f"{name} {value:.2f}" if isinstance(value, float) else f"{name} {value}" for name, value in items)
    return f"{said} ({answer['model']} version {answer['version']})"


def _timed(what: str, work: Callable[[], T]) -> T:
    start = time.monotonic()
    result = work()
    say(f"== {what}: {time.monotonic() - start:.1f} s")
    return result
