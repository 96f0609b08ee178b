"""Registered models: versions with provenance, found by the alias challenger or champion."""

import contextlib
import io
import warnings
from importlib import metadata
from pathlib import Path
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from pipelines.core import json_file
from pipelines.core.errors import InputError, choices
from pipelines.core.progress import say
from pipelines.tracking import files, ledger, mlmodel, pyfunc, registered_version, store
from pipelines.tracking.ledger_events import CHAMPION, SUFFIX
from pipelines.tracking.registered_version import FOLDERS, RUNTIME, Version
from pipelines.tracking.registry_snapshot import CHALLENGER

PROFILE = "profile"  # the artifact that drift is measured against
SMOKE = "smoke"  # the artifact with rows and the answers that the version gave them
PAGE = 1000  # versions in one request
LAST = 2**31 - 1  # the largest number that the column of a database may hold
SAME = ("md5", "md5_onnx")  # tags: the digests of a version's folders
TEACHERS = "teachers"  # the tag with the registered versions that a version was made from, as JSON
# packages for opening a model and predicting; this project's code is stored with each version, as no index has it
NEEDS = ("fugashi", "ipadic", "mlflow", "numpy", "pandas", "pyarrow", "pydantic", "tokenizers", "unidic-lite")
RUNS = {"onnx": ("onnxruntime",), "torch": ("torch", "transformers", "safetensors")}


def register(
    name: str,
    folder: Path | None,
    code: Path,
    kind: str,
    example: dict[str, Any],
    tags: dict[str, str],
    exported: Path | None = None,
    profile: Path | None = None,
    smoke: Path | None = None,
) -> Version:
    """Register a model as a version of `name`, unless it is one already, and set the alias challenger to it.

    A version appears complete, with its tags. Two processes that register the same model end with one version.

    Args:
        folder: the model for torch; a cascade has none.
        exported: the same model as ONNX. It serves predictions, without torch, unless the tag `runtime` is torch.
        code: the file that MLflow runs to open the model (models from code); its package is stored with the version.
        kind: the kind of the model's rows; `example` is one of them.
        tags: provenance. Versions with the same md5s are the same model.
        profile, smoke: the files that drift is measured against, and with rows and the version's answers to them.
    """
    client = store.connect()
    tags = {RUNTIME: "onnx" if exported else "torch"} | tags
    model = {
        "python_model": str(code),
        "code_paths": [str(code.parents[1])],
        "artifacts": _artifacts(folder, exported, profile, smoke),
        "signature": pyfunc.signature(kind),
        "input_example": [example],
        "pip_requirements": _requirements(tags[RUNTIME]),
        "model_config": {RUNTIME: tags[RUNTIME]},
    }
    with store.explained(f"{name}: no version is registered"):
        if number := _equal(client, name, tags):
            say(f"{name}: this model is already registered, as version {number}")
        number = number or _first(client, name, tags, _log(client, name, tags, **model))
        client.set_registered_model_alias(name, CHALLENGER, str(number))
        return _version(client, name, number)


def same(name: str, tags: dict[str, str]) -> Version | None:
    """The version of `name` with the md5s in `tags`; None if there is none yet."""
    client = store.connect()
    with store.explained(f"{name}: its versions cannot be read"):
        number = _equal(client, name, tags)
        return _version(client, name, number) if number else None


def _first(client: MlflowClient, name: str, tags: dict[str, str], ours: int) -> int:
    """The first of the versions with the same md5s. If that is not `ours`, remove ours."""
    number = _equal(client, name, tags) or ours
    if number != ours:  # a duplicate that this user may not delete does no harm
        with contextlib.suppress(MlflowException):
            client.delete_model_version(name, str(ours))
    return number


def _equal(client: MlflowClient, name: str, tags: dict[str, str]) -> int | None:
    """The first version with the same md5s; None if there is none, or if `tags` has no md5."""
    if not tags.get("md5"):
        return None
    registered = client.search_model_versions(f"name='{name}' and tag.md5='{tags['md5']}'")
    same = (version for version in registered if all(version.tags.get(key, "") == tags.get(key, "") for key in SAME))
    return min((int(version.version) for version in same), default=None)


def _artifacts(folder: Path | None, exported: Path | None, profile: Path | None, smoke: Path | None) -> dict[str, str]:
    folders = {FOLDERS["torch"]: folder, FOLDERS["onnx"]: exported, PROFILE: profile, SMOKE: smoke}
    return {name: str(place) for name, place in folders.items() if place}


def _requirements(runtime: str) -> list[str]:
    """The packages for opening a version, pinned to the versions installed here."""
    return [f"{package}=={metadata.version(package)}" for package in (*NEEDS, *RUNS[runtime])]


def _log(client: MlflowClient, name: str, tags: dict[str, str], **model: Any) -> int:
    """Log a model as a pyfunc, and register it as the next version of `name`; `model` is passed to log_model."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):  # callers print their own messages
        warnings.simplefilter("ignore")  # MLflow's advice about types of examples and about pip
        with mlflow.start_run(experiment_id=store.experiment(client), run_name=f"register {name}", tags=tags):
            logged = mlflow.pyfunc.log_model(name="model", **model)
        ledger.create(client, name)  # before `name`, so that one user owns both
        created = mlflow.register_model(logged.model_uri, name, await_registration_for=0, tags=tags)
    return int(created.version)


def get(name: str, alias: str) -> Version:
    """The version of `name` with `alias`; the ledger decides which is champion. Raises InputError if there is none."""
    client, held = store.existing(), aliases_of(name)
    aliases = {alias_name: int(number) for alias_name, number in held.items() if alias_name != CHAMPION}
    if champion := ledger.champion(name):
        aliases[CHAMPION] = champion
    if alias not in aliases:
        raise InputError(f"{name}: {choices('alias', alias, aliases)}")
    with store.explained(f"{name} version {aliases[alias]}, the {alias}, does not exist"):
        return _version(client, name, aliases[alias])


def aliases_of(name: str) -> dict[str, str]:
    """The aliases of `name` in MLflow. Raises InputError, with the existing names, if there is no such model."""
    client = store.existing()
    with store.explained(f"{name}: its aliases cannot be read"):
        try:
            return dict(client.get_registered_model(name).aliases)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            names = [m.name for m in client.search_registered_models() if not m.name.endswith(SUFFIX)]
            raise InputError(f"{store.shown()}: {choices('registered model', name, names)}") from None


def _version(client: MlflowClient, name: str, number: int) -> Version:
    return Version(name, number, dict(client.get_model_version(name, str(number)).tags))


def version(name: str, number: int) -> Version:
    """A version by its number. Raises InputError if there is none."""
    client = store.existing()
    if number > LAST:
        raise InputError(f"{name}: no version {number}")
    with store.explained(f"{name}: no version {number}"):
        return _version(client, name, number)


def labelled(name: str, label: str) -> Version:
    """The version of `name` by its number or an alias, as people write it. Raises InputError if there is none."""
    return version(name, int(label)) if label.isdecimal() else get(name, label)


def find(name: str, number: int) -> Version | None:
    """A version by its number; None if it was deleted."""
    client = store.existing()
    with store.explained(f"{name} version {number} cannot be read"):
        return _version(client, name, number) if ledger.has_version(client, name, number) else None


def versions(name: str = "") -> list[Version]:
    """Every version of a registered model, or of all of them, the oldest of a model first."""
    if not store.is_there():
        return []
    client = store.connect()
    registered: list[Version] = []
    token = None
    while token != "":
        with store.explained("the registered versions cannot be read"):
            page = client.search_model_versions(
                f"name='{name}'" if name else None,
                max_results=PAGE,
                order_by=["name ASC", "version_number ASC"],
                page_token=token,
            )
        registered += [Version(entry.name, int(entry.version), dict(entry.tags)) for entry in page]
        token = page.token or ""
    return [version for version in registered if not version.name.endswith(SUFFIX)]


def made_from(stages: list[dict[str, Any]], md5: str) -> list[dict[str, Any]]:
    """The teachers of the model with this md5: registered versions whose model one of `stages` read to make it."""
    read = {digest for stage in stages for digest in stage["read"].values()} - {md5}  # an export reads the model itself
    return [{"model": v.name, "version": v.version} for v in versions() if v.tags.get("md5") in read]


def content(version: Version) -> dict[str, str]:
    """The content of a version: the digest of each artifact's files, and the runtime that serves it.

    Raises InputError if it was champion before, and has changed since.
    """
    fetched = {name: _fetch_as_promoted(version, name, path) for name, path in sorted(_logged(version).items())}
    digests = {name: digest for name, (_, digest) in fetched.items()}
    return digests | ({RUNTIME: version.tags[RUNTIME]} if RUNTIME in version.tags else {})


def _fetch_as_promoted(version: Version, name: str, path: str) -> tuple[Path, str]:
    """An artifact of a version, and its digest. Raises InputError if it has changed since the promotion."""
    place = files.fetch(version.name, version.version, path)
    promoted = ledger.content(version.name, version.version)
    return place, files.digest_as_promoted(version, name, place, promoted)


def folder(version: Version, runtime: str = "") -> Path:
    """The folder that `version` is opened from, downloaded if the store is not local.

    It is the folder for `runtime` (torch or onnx), or by default for the one of `registered_version.of_runtime`.
    """
    logged = _logged(version)
    name = registered_version.of_runtime(version, logged, runtime)
    return _fetch_as_promoted(version, name, logged[name])[0]


def profile(version: Version) -> Path:
    """The profile that drift of `version` is measured against. Raises InputError if it was registered without one."""
    if not (path := profile_of(version)):
        raise InputError(f"{version} has no profile to measure drift against; `bertline retrain` registers it with one")
    return path


def profile_of(version: Version) -> Path | None:
    """The profile of a version; None for one that was registered without."""
    path = _logged(version).get(PROFILE)
    return _fetch_as_promoted(version, PROFILE, path)[0] if path else None


def smoke(version: Version) -> Path | None:
    """The file with the answers that `version` gave to a few rows; None for a version that was registered without."""
    path = _logged(version).get(SMOKE)
    return _fetch_as_promoted(version, SMOKE, path)[0] if path else None


def _logged(version: Version) -> dict[str, str]:
    """The artifacts of a version: name -> path in the version."""
    return mlmodel.artifacts(version, _mlmodel(version))


def _mlmodel(version: Version) -> Path:
    return files.fetch(version.name, version.version, mlmodel.NAME)


def example(version: Version) -> list[dict[str, Any]]:
    """The example rows that `version` was registered with."""
    described: Any = mlmodel.described(_mlmodel(version)).get("saved_input_example_info")
    if not isinstance(described, dict) or "artifact_path" not in described:
        raise mlmodel.foreign(version)
    rows: Any = json_file.read(files.fetch(version.name, version.version, str(described["artifact_path"])))
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{version}: its example holds no rows; register the model again")
    return rows
