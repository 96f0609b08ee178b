"""Which MLflow: the one that MLFLOW_TRACKING_URI names, else SQLite and a folder in this checkout."""

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
    return f"sqlite:///{(HOME / 'mlflow.db').resolve()}"


def connect() -> MlflowClient:
    """Point MLflow at the store and its experiment, which is made if it is new."""
    import mlflow

    logging.getLogger("alembic").setLevel(logging.WARNING)  # a line for each migration of a new database
    logging.getLogger("mlflow.store").setLevel(logging.WARNING)
    mlflow.set_tracking_uri(uri())
    client = MlflowClient()
    if client.get_experiment_by_name(EXPERIMENT) is None:
        artifacts = None if os.environ.get("MLFLOW_TRACKING_URI") else (HOME / "artifacts").resolve().as_uri()
        client.create_experiment(EXPERIMENT, artifact_location=artifacts)
    mlflow.set_experiment(EXPERIMENT)
    return client
