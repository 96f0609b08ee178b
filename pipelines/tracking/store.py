"""The MLflow store: the one in MLFLOW_TRACKING_URI, else SQLite and a folder in this checkout."""

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from pipelines.core import addresses
from pipelines.core.errors import InputError, one_line

if TYPE_CHECKING:  # `bertline up` and `down` need only the address, and importing MLflow takes seconds
    from mlflow import MlflowClient

HOME = Path("state/mlflow")
EXPERIMENT = "bertline"


class StoreError(InputError):
    """MLflow's store, or what it keeps the files in, does not answer or refuses."""


def uri() -> str:
    """The tracking store's address. Raises InputError if this checkout's path cannot stand in one."""
    if address := os.environ.get("MLFLOW_TRACKING_URI"):
        return address
    if "?" in _local():  # SQLAlchemy reads a query behind it, and the database would lie outside of the checkout
        raise InputError(
            f"{HOME.resolve()}: the path of a registry has no `?`; rename the folder, or let MLFLOW_TRACKING_URI "
            "name another store"
        )
    return _local()


def is_there() -> bool:
    """Return whether there is a store, which `connect` would make; what no file shows to be missing counts as there."""
    address = os.environ.get("MLFLOW_TRACKING_URI", "")
    if not address:
        return (HOME / "mlflow.db").is_file()
    return not (file := _database(address)) or file.is_file()


def _database(address: str) -> Path | None:
    """The file of an SQLite store; None for another store."""
    place = address.partition("?")[0].removeprefix("sqlite:///")
    return Path(place) if address.startswith("sqlite:///") and place else None


def nothing_registered() -> InputError:
    """The refusal of a question about registered models where `is_there` finds no store."""
    if address := os.environ.get("MLFLOW_TRACKING_URI"):
        return InputError(f"MLFLOW_TRACKING_URI={address}: no such database; `bertline retrain NAME` would make it")
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
    return addresses.without_passwords(text, os.environ.get("MLFLOW_TRACKING_URI", ""))


def shown() -> str:
    """The store's address without user name and password, for messages."""
    return without_passwords(uri())


def connect() -> "MlflowClient":
    """Point MLflow at the store, and create the project's experiment if it is missing. Takes one request otherwise.

    Raises StoreError if the store does not answer, and InputError if that of this checkout was made in another place.
    """
    import mlflow
    from mlflow.exceptions import MlflowException

    _say_less()
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "3")  # with MLflow's default of 7 it takes minutes to fail
    place = uri()
    if place == _local():
        HOME.mkdir(parents=True, exist_ok=True)
    mlflow.set_tracking_uri(place)  # this also sets MLFLOW_TRACKING_URI for child processes
    with explained("MLflow's store does not answer"):
        client, local = mlflow.MlflowClient(), place == _local()
        known = client.get_experiment_by_name(EXPERIMENT)
        if known is None:
            artifacts = (HOME / "artifacts").resolve().as_uri() if local else None  # a server decides where its own are
            try:
                client.create_experiment(EXPERIMENT, artifacts)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another process was first
                    raise
    if known is not None and local:
        _require_made_here(known.artifact_location)
    return client


def _require_made_here(location: str) -> None:
    """Raise InputError if the files of the local store are those of the place that it was copied or moved from.

    Its database names them by absolute paths, so a copy would write and remove the files of the other checkout.
    """
    parts = urlsplit(location)
    artifacts = Path(unquote(parts.path))
    made, database = artifacts.parent, artifacts.with_name("mlflow.db")
    mounted = made.is_dir() and made.samefile(HOME)  # the same folder by another name that is no link
    if parts.scheme != "file" or mounted or artifacts.resolve() == (HOME / "artifacts").resolve():
        return
    if database.is_file():
        raise InputError(
            f"{HOME}: this registry was made in {made}, and its files are there; set "
            f"MLFLOW_TRACKING_URI=sqlite:///{database} to use it, or remove {HOME} here to begin a new one"
        )
    raise InputError(
        f"{HOME}: its database names files in {made}, where no registry is; move this checkout back to that place, or "
        f"mount it there. Whoever removes {HOME} instead loses all versions and their history"
    )


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
    """Turn errors of MLflow and its artefact store into a StoreError of one line that begins with `what`."""
    from mlflow.exceptions import MlflowException

    try:
        yield
    # OSError: a full disk, or `requests` fails to upload; ImportError: a database driver is missing
    except (MlflowException, OSError, ImportError) as error:
        message = without_passwords(str(error)) or type(error).__name__
        refused = "Permission denied" in message or "error code 403" in message
        why = "this user has no permission for it" if refused else one_line(InputError(message))
        cause = error if shown() == uri() else None  # the cause may contain the password, and Prefect logs causes
        raise StoreError(f"{what} at {shown()}: {why}") from cause
