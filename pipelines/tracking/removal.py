"""Remove a registered version: its entry in MLflow, its logged model, and its files. The ledger keeps its events."""

from mlflow import MlflowClient
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository

from pipelines.core import paths
from pipelines.tracking import files, store
from pipelines.tracking.registered_version import Version

LOGGED = "models:/m-"  # the source of a version whose files MLflow placed; others may lie where a user said


def size_bytes(version: Version) -> int:
    """The bytes of a version's files in a store of this machine; 0 if the store is another."""
    client = store.connect()
    with store.explained(f"{version}: its files cannot be found"):
        uri = client.get_model_version_download_uri(version.name, str(version.version))
    place = files.local(uri)
    return paths.size_bytes(place) if place and place.is_dir() else 0


def remove(version: Version) -> bool:
    """Remove a version; returns whether its files went too.

    The files stay if MLflow did not place them itself, as whoever registers a version may name any place for them, and
    if another version has them too.

    Raises:
        InputError: this user may not, or the version went, and its files could not be removed.
    """
    client, name, number = store.connect(), version.name, str(version.version)
    with store.explained(f"{version}: it cannot be removed"):
        source = client.get_model_version(name, number).source or ""
        uri = client.get_model_version_download_uri(name, number)
        client.delete_model_version(name, number)
    files.forget(uri)
    if not source.startswith(LOGGED) or _is_shared(client, source):
        return False
    with store.explained(f"{version} was removed, but its files stay at {store.without_passwords(uri)}"):
        model_id = source.removeprefix("models:/")
        place = client.get_logged_model(model_id).artifact_location
        client.delete_logged_model(model_id)
        get_artifact_repository(place).delete_artifacts()
    return True


def _is_shared(client: MlflowClient, source: str) -> bool:
    """Return whether a version has the files at `source`."""
    with store.explained("the versions with these files cannot be read"):
        return bool(client.search_model_versions(f"source_path='{source}'", max_results=1))
