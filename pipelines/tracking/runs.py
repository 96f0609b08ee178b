"""MLflow runs, one for each entry of a stage that ran."""

import re
from pathlib import Path
from typing import Any

import mlflow

from pipelines.tracking import store

NAME = re.compile(r"[\w./ :-]+")  # a part of a name that MLflow allows


def log(
    stage: str, params: dict[str, Any], metrics: dict[str, Any], tags: dict[str, str], folder: Path | None = None
) -> str:
    """Log the params, metrics and tags of a stage's entry, such as `finetune@livedoor`; returns the run's id.

    The files in `folder` become the run's artifacts.
    """
    client, tags = store.connect(), {"stage": stage, **tags}
    with (
        store.explained(f"{stage}: its run is not logged"),
        mlflow.start_run(experiment_id=store.experiment(client), run_name=stage, tags=tags) as run,
    ):
        mlflow.log_params({name: str(value)[:500] for name, value in flatten(params).items()})
        if folder:
            mlflow.log_artifacts(str(folder))
        mlflow.log_metrics({k: float(v) for k, v in flatten(metrics).items() if isinstance(v, int | float)})
    return run.info.run_id


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
