"""The MLflow store: the one that MLFLOW_TRACKING_URI names, else SQLite and a folder in this checkout."""

import logging
import os
from pathlib import Path

from mlflow import MlflowClient

HOME = Path("state/mlflow")
EXPERIMENT = "bertline"


def uri() -> str:
    """The tracking store's address."""
    if given := os.environ.get("MLFLOW_TRACKING_URI"):
        return given
    HOME.mkdir(parents=True, exist_ok=True)
    return _local()


def connect() -> MlflowClient:
    """Point MLflow at the store and its experiment, which is created if it is new."""
    import mlflow

    _say_less()
    place = uri()
    mlflow.set_tracking_uri(place)  # which also sets MLFLOW_TRACKING_URI, for processes started from here
    client = MlflowClient()
    if client.get_experiment_by_name(EXPERIMENT) is None:
        local = place == _local()  # a server decides where its artifacts are
        client.create_experiment(EXPERIMENT, (HOME / "artifacts").resolve().as_uri() if local else None)
    mlflow.set_experiment(EXPERIMENT)
    return client


def _local() -> str:
    return f"sqlite:///{(HOME / 'mlflow.db').resolve()}"


def _say_less() -> None:
    """Silence MLflow's messages on migrations and examples, and its progress bars for a few small files."""
    for name in ("alembic", "mlflow.store", "mlflow.pyfunc"):
        logging.getLogger(name).setLevel(logging.WARNING)
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
