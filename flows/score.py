"""score: predict every row of a Parquet file with the champion."""

from pathlib import Path

from prefect import flow

from flows.failure_hook import HOOKS
from pipelines.scoring import batch_scoring
from pipelines.tracking import registry


@flow(name="score", timeout_seconds=24 * 3600, **HOOKS)
def score(name: str, source: str, target: str, alias: str = registry.CHAMPION, prefix: str = "") -> int:
    """Score `source` into `target` with the version of `name` that holds `alias`; returns the number of rows."""
    return batch_scoring.score(Path(source), Path(target), registry.get(name, alias), prefix)
