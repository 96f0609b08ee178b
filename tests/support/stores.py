"""MLflow's database as it is when it is new, made once in a process: MLflow takes seconds to make one."""

import shutil
import tempfile
from functools import cache
from pathlib import Path

from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore

from pipelines.tracking import store


def new(checkout: Path) -> None:
    """Let MLflow find its database where the project keeps it in a checkout."""
    place = checkout / store.HOME
    place.mkdir(parents=True)
    shutil.copyfile(_database(), place / "mlflow.db")


@cache
def _database() -> Path:
    folder = tempfile.TemporaryDirectory(prefix="bertline-mlflow-", ignore_cleanup_errors=True)
    _FOLDERS.append(folder)  # removed when the process ends
    database = Path(folder.name) / "mlflow.db"
    SqlAlchemyStore(f"sqlite:///{database}", folder.name).engine.dispose()
    return database


_FOLDERS: list[tempfile.TemporaryDirectory[str]] = []
