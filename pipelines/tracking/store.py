"""The MLflow store: the one that MLFLOW_TRACKING_URI names, else SQLite and a folder in this checkout."""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.core.errors import InputError, one_line

if TYPE_CHECKING:  # `bertline up` and `down` need an address only, and MLflow takes seconds
    from mlflow import MlflowClient

HOME = Path("state/mlflow")
EXPERIMENT = "bertline"
_USER_INFO = re.compile(r"(?<=://)[^/\s]+@")  # of an address, such as `user:password@`


def uri() -> str:
    """The tracking store's address."""
    if given := os.environ.get("MLFLOW_TRACKING_URI"):
        return given
    HOME.mkdir(parents=True, exist_ok=True)
    return _local()


def without_passwords(text: str) -> str:
    """`text` without what stands before the host in its addresses: a user's name and a password."""
    return _USER_INFO.sub("", text)


def shown() -> str:
    """The store's address as it may be told: without a user's name and password."""
    return without_passwords(uri())


def connect() -> "MlflowClient":
    """Point MLflow at the store, in which the project's experiment is created if it is new. This is one request."""
    import mlflow
    from mlflow.exceptions import MlflowException

    _say_less()
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")  # MLflow's own 7 take minutes to say that it is down
    place = uri()
    mlflow.set_tracking_uri(place)  # which also sets MLFLOW_TRACKING_URI, for processes started from here
    with explained("MLflow's store does not answer"):
        client = mlflow.MlflowClient()
        if client.get_experiment_by_name(EXPERIMENT) is None:
            local = place == _local()  # a server decides where its artifacts are
            artifacts = (HOME / "artifacts").resolve().as_uri() if local else None
            try:
                client.create_experiment(EXPERIMENT, artifacts)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process was first
                    raise
    return client


def experiment(client: "MlflowClient") -> str:
    """The id of the project's experiment, which `connect` has made."""
    found: Any = client.get_experiment_by_name(EXPERIMENT)
    return str(found.experiment_id)


def _local() -> str:
    return f"sqlite:///{(HOME / 'mlflow.db').resolve()}"


def _say_less() -> None:
    """Silence MLflow's messages on migrations and examples, and its progress bars for a few small files."""
    for name in ("alembic", "mlflow.store", "mlflow.pyfunc"):
        logging.getLogger(name).setLevel(logging.WARNING)
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn MLflow's own errors, and those of its artefact store, into one sentence that begins with `what`."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    # a full disk, or what `requests` says of an upload, is an OSError; a driver is imported when it is needed
    except (MlflowException, OSError, ImportError) as error:
        said = without_passwords(str(error)) or type(error).__name__
        refused = "Permission denied" in said or "error code 403" in said
        why = "this user has no permission for it" if refused else one_line(InputError(said))
        cause = error if shown() == uri() else None  # it may have the password, and Prefect logs causes too
        raise InputError(f"{what} at {shown()}: {why}") from cause
