"""The MLflow store: the one in MLFLOW_TRACKING_URI, else SQLite and a folder in this checkout."""

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.core.errors import InputError, one_line

if TYPE_CHECKING:  # `bertline up` and `down` need only the address, and importing MLflow takes seconds
    from mlflow import MlflowClient

HOME = Path("state/mlflow")
EXPERIMENT = "bertline"
_USER_INFO = re.compile(r"(?<=://)[^/\s]+@")  # in an address, such as `user:password@`


def uri() -> str:
    """The tracking store's address."""
    if address := os.environ.get("MLFLOW_TRACKING_URI"):
        return address
    return _local()


def is_there() -> bool:
    """Return whether a store is named, or was made in this checkout; `connect` would make one."""
    return "MLFLOW_TRACKING_URI" in os.environ or (HOME / "mlflow.db").is_file()


def nothing_registered() -> InputError:
    """The refusal of a question about registered models where no store is named and none was made."""
    return InputError(
        f"{HOME}: no model is registered in this checkout; `bertline retrain NAME` registers one, "
        "or let MLFLOW_TRACKING_URI name the store"
    )


def existing() -> "MlflowClient":
    """The client of a store that exists, for reading. Raises InputError where `connect` would create the store."""
    if not is_there():
        raise nothing_registered()
    return connect()


def without_passwords(text: str) -> str:
    """`text` without the user names and passwords in its addresses."""
    return _USER_INFO.sub("", text)


def shown() -> str:
    """The store's address without user name and password, for messages."""
    return without_passwords(uri())


def connect() -> "MlflowClient":
    """Point MLflow at the store, and create the project's experiment if it is missing. Takes one request otherwise."""
    import mlflow
    from mlflow.exceptions import MlflowException

    _say_less()
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")  # with MLflow's default of 7 it takes minutes to fail
    place = uri()
    if place == _local():
        HOME.mkdir(parents=True, exist_ok=True)
    mlflow.set_tracking_uri(place)  # this also sets MLFLOW_TRACKING_URI for child processes
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
    """The id of the project's experiment, which `connect` creates."""
    held: Any = client.get_experiment_by_name(EXPERIMENT)
    return str(held.experiment_id)


def _local() -> str:
    return f"sqlite:///{(HOME / 'mlflow.db').resolve()}"


def _say_less() -> None:
    """Silence MLflow's messages about migrations and examples, and its progress bars."""
    for name in ("alembic", "mlflow.store", "mlflow.pyfunc"):
        logging.getLogger(name).setLevel(logging.WARNING)
    os.environ.setdefault("MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR", "false")
    os.environ.setdefault("MLFLOW_SUPPRESS_PRINTING_URL_TO_STDOUT", "true")


@contextmanager
def explained(what: str) -> Iterator[None]:
    """Turn errors of MLflow and its artefact store into an InputError of one line that begins with `what`."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    # OSError: a full disk, or `requests` fails to upload; ImportError: a database driver is missing
    except (MlflowException, OSError, ImportError) as error:
        message = without_passwords(str(error)) or type(error).__name__
        refused = "Permission denied" in message or "error code 403" in message
        why = "this user has no permission for it" if refused else one_line(InputError(message))
        cause = error if shown() == uri() else None  # the cause may contain the password, and Prefect logs causes
        raise InputError(f"{what} at {shown()}: {why}") from cause
