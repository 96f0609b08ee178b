"""MLflow stores for tests. Tables take seconds to create, so they are created once and copied; a server is emptied."""

import functools
import shutil
from pathlib import Path

from mlflow import MlflowClient

from pipelines.tracking import store
from tests.support import postgres, servers
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


def in_postgres(base: postgres.Postgres, name: str) -> str:
    """The address of a new database with MLflow's tables; the first call creates the template."""
    if not base.execute(postgres.USER, "SELECT 1 FROM pg_database WHERE datname = 'made'"):
        MlflowClient(base.database("made")).search_experiments()
    # a template database must have no connections
    base.execute(postgres.USER, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = 'made'")
    base.execute(postgres.USER, f"CREATE DATABASE {name} TEMPLATE made")
    return base.address(name)


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
