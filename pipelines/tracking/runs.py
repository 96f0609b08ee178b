"""MLflow runs, one for each entry of a stage that ran."""

import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param

from pipelines.tracking import ledger, store

MOST_PARAMS, MOST_METRICS = 100, 1000  # in one request (MLflow's REST API, runs/log-batch)
NAME = re.compile(r"[\w./ :-]+")  # a part of a name that MLflow allows


def log(
    stage: str,
    params: dict[str, Any],
    metrics: dict[str, Any],
    tags: dict[str, str],
    folder: Path | None = None,
    curve: Sequence[tuple[int, dict[str, float]]] = (),
    began_ms: int | None = None,
    ended_ms: int | None = None,
) -> str:
    """Log the params, metrics and tags of a stage's entry, such as `finetune@livedoor`; returns the run's id.

    The files in `folder` become the run's artifacts.

    Args:
        curve: steps of a training, each with its numbers; MLflow draws a curve of each number.
        began_ms, ended_ms: when the stage ran, since 1970; by default now, so that the run takes no time.
    """
    source = {"mlflow.user": ledger.actor(), "mlflow.source.name": "bertline", "mlflow.source.type": "JOB"}
    client, tags = store.connect(), {"stage": stage, **source, **tags}
    now = int(time.time() * 1000)
    ended_ms = now if ended_ms is None else ended_ms
    began_ms = ended_ms if began_ms is None else began_ms
    with store.explained(f"{stage}: its run is not logged"):
        run = client.create_run(store.experiment(client), began_ms, tags, stage).info.run_id
        try:
            for part in _batches(params, metrics, curve, began_ms, ended_ms):
                client.log_batch(run, **part)
            if folder:
                client.log_artifacts(run, str(folder))
        except BaseException:
            client.set_terminated(run, "FAILED")
            raise
        client.set_terminated(run, "FINISHED", ended_ms)
    return str(run)


def _batches(
    params: dict[str, Any],
    metrics: dict[str, Any],
    curve: Sequence[tuple[int, dict[str, float]]],
    began_ms: int,
    ended_ms: int,
) -> Iterator[dict[str, Any]]:
    """The params and numbers of a run, in parts of sizes that a server takes; a curve is spread over the run's time."""
    written = [Param(name, str(value)[:500]) for name, value in flatten(params).items()]
    numbers = {k: float(v) for k, v in flatten(metrics).items() if isinstance(v, int | float)}
    last = max((step for step, _ in curve), default=0) or 1
    points = [
        Metric(f"training.{name}", float(value), began_ms + (ended_ms - began_ms) * step // last, step)
        for step, values in curve
        for name, value in flatten(values).items()
        if isinstance(value, int | float)
    ]
    points += [Metric(name, value, ended_ms, 0) for name, value in numbers.items()]
    yield from ({"params": written[i : i + MOST_PARAMS]} for i in range(0, len(written), MOST_PARAMS))
    yield from ({"metrics": points[i : i + MOST_METRICS]} for i in range(0, len(points), MOST_METRICS))


def find(stage: str, wrote: dict[str, str]) -> str:
    """The id of the last run of a stage's entry that wrote these paths with these md5s; "" if there is none."""
    client = store.connect()
    tags = " and ".join(f"tags.`md5 {path}` = '{md5}'" for path, md5 in wrote.items())
    with store.explained(f"{stage}: its run cannot be looked up"):
        runs = client.search_runs([store.experiment(client)], f"tags.stage = '{stage}' and {tags}", max_results=1)
    return runs[0].info.run_id if runs else ""


def flatten(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """{"a": {"b": 1}} gives {"a.b": 1}; lists stay whole, and so do mappings whose keys are not names."""
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, dict) and all(NAME.fullmatch(key) for key in value):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
