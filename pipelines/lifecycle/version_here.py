"""A registered version whose files are on this machine, opened without MLflow, whose import takes seconds.

The rules are those of pipelines.tracking.registry: the ledger says who is champion, and files that changed since their
version became champion are not opened.
"""

from pathlib import Path

from pipelines.lifecycle import registry_refusals
from pipelines.tracking import files, mlmodel, registered_version, registry_snapshot
from pipelines.tracking.registered_version import Version


def read(name: str, which: str, runtime: str = "") -> tuple[Version, Path] | None:
    """A version and the folder that it is opened from.

    Args:
        which: an alias, or the number of a version.
        runtime: torch or onnx; by default the one that the version was registered with.

    Returns:
        None where MLflow's client has to say more: the store is of another kind or does not answer, its ledger is
        damaged, or the files are not on this machine.

    Raises:
        InputError: there is no such model, version, alias or runtime, or the files changed since the promotion.
    """
    snapshot = registry_snapshot.read(name)
    if not snapshot:
        return None
    number = registry_refusals.number_of(name, which, snapshot)
    state = registry_refusals.sound(name, snapshot)
    stored = registry_snapshot.stored_version(name, number) if number and state else None
    description = files.here(stored.uri, mlmodel.NAME) if stored else None
    if not (number and state and stored and description):
        return None
    version = Version(name, number, stored.tags)
    artifacts = mlmodel.artifacts(version, description)
    artifact = registered_version.of_runtime(version, artifacts, runtime)
    folder = files.here(stored.uri, artifacts[artifact])
    if not folder:
        return None
    files.digest_as_promoted(version, artifact, folder, state.content(number))
    return version, folder
