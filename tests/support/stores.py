"""MLflow stores for tests. Tables take seconds to create, so they are created once and copied; a server is emptied."""

import functools
import shutil
from pathlib import Path

from mlflow import MlflowClient

from pipelines.tracking import store
from tests.support import servers
from tests.support.places import temporary

FILE = "mlflow.db"


@functools.cache
def empty() -> Path:
    """A database with MLflow's tables, without data."""
    file = temporary("bertline-store-") / FILE
    MlflowClient(f"sqlite:///{file}").search_experiments()
    return file


def place_in(checkout: Path) -> Path:
    """Put an empty store into a checkout; returns the database file."""
    (checkout / store.HOME).mkdir(parents=True, exist_ok=True)
    return Path(shutil.copyfile(empty(), checkout / store.HOME / FILE))


def server(place: Path, *more: str, **options: str) -> servers.Mlflow:
    """An MLflow server, not started yet, with one worker, over a database that has its tables already."""
    place.mkdir(parents=True, exist_ok=True)
    if "database" not in options:
        shutil.copyfile(empty(), place / FILE)
    return servers.Mlflow(place, "--workers", "1", *more, **options)


def forget_models() -> None:
    """Delete every registered model, including ledgers, from the store in the environment."""
    client = store.connect()
    for model in client.search_registered_models():
        client.delete_registered_model(model.name)
