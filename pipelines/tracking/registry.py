"""Registered models: versions with provenance, the aliases challenger and champion, and the promotion history."""

import contextlib
import io
import json
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
from mlflow.exceptions import MlflowException
from mlflow.models import Model

from pipelines.core.errors import InputError, choices
from pipelines.tracking import pyfunc, store

CHALLENGER, CHAMPION = "challenger", "champion"
HISTORY = "champions"  # tag with a model's promotion history: versions that have been champion, the present one last


@dataclass(frozen=True)
class Version:
    """One version of a registered model."""

    name: str
    version: int
    tags: dict[str, str]

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"


def register(
    name: str,
    folder: Path,
    code: Path,
    kind: str,
    example: dict[str, Any],
    tags: dict[str, str],
    exported: Path | None = None,
) -> Version:
    """Log the model folder as a pyfunc and give it the next version of `name`, with the alias challenger.

    Args:
        exported: the same model as ONNX. It is what answers then, and needs no torch.
        code: the file that MLflow runs to open the model (models from code).
        kind: of the rows that it takes; `example` is one of them.
        tags: provenance: md5s of dvc.lock, the git commit, the run and its params.
    """
    client = store.connect()
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):  # our callers say the same
        warnings.simplefilter("ignore")  # MLflow's advice about types of examples and about pip
        with mlflow.start_run(run_name=f"register {name}", tags=tags):
            logged = mlflow.pyfunc.log_model(
                name="model",
                python_model=str(code),
                artifacts={pyfunc.FOLDERS["torch"]: str(folder)}
                | ({pyfunc.FOLDERS["onnx"]: str(exported)} if exported else {}),
                signature=pyfunc.signature(kind),
                input_example=[example],
                pip_requirements=["bertline"],
                registered_model_name=name,
            )
    version = int(logged.registered_model_version)
    for key, value in tags.items():
        client.set_model_version_tag(name, str(version), key, value)
    client.set_registered_model_alias(name, CHALLENGER, str(version))
    return get(name, CHALLENGER)


def get(name: str, alias: str) -> Version:
    """The version of `name` that holds `alias`. Raises InputError if none does."""
    client = store.connect()
    try:
        found = client.get_model_version_by_alias(name, alias)
    except MlflowException:
        names = [model.name for model in client.search_registered_models()]
        if name not in names:
            raise InputError(f"{store.uri()}: {choices('registered model', name, names)}") from None
        aliases = client.get_registered_model(name).aliases
        raise InputError(f"{name}: {choices('alias', alias, aliases)}") from None
    return Version(name, int(found.version), dict(found.tags))


def find(name: str, alias: str) -> Version | None:
    """The version that holds `alias`, or None."""
    try:
        return get(name, alias)
    except InputError:
        return None


def folder(version: Version, runtime: str = "") -> Path:
    """What `version` is opened from, downloaded if the store is elsewhere.

    It is the exported folder if the version has one, else the model folder; or that of `runtime`, torch or onnx.
    """
    path = mlflow.artifacts.download_artifacts(f"models:/{version.name}/{version.version}")
    logged = Model.load(path).flavors["python_function"]["artifacts"]
    if runtime and runtime not in pyfunc.FOLDERS:
        raise InputError(choices("runtime", runtime, pyfunc.FOLDERS))
    names = [pyfunc.FOLDERS[runtime]] if runtime else list(pyfunc.FOLDERS.values())
    found = next((logged[name]["path"] for name in names if name in logged), "")
    if not found:
        raise InputError(f"{version} was registered without {names[0]}; add its run to export: and retrain")
    return Path(path) / found


def promote(version: Version) -> None:
    """Make `version` the champion, and write it into the promotion history."""
    client = store.connect()
    history = promotion_history(version.name)
    client.set_registered_model_alias(version.name, CHAMPION, str(version.version))
    client.set_registered_model_tag(version.name, HISTORY, json.dumps([*history, version.version]))


def promotion_history(name: str) -> list[int]:
    """Versions of `name` that have been champion, the present one last."""
    tags: dict[str, Any] = store.connect().get_registered_model(name).tags
    return json.loads(tags.get(HISTORY, "[]"))


def rollback(name: str) -> Version:
    """Make the previous champion the champion again."""
    get(name, CHAMPION)
    history = promotion_history(name)
    if len(history) < 2:
        raise InputError(f"{name}: no champion before version {history[-1]} to roll back to")
    client = store.connect()
    client.set_registered_model_alias(name, CHAMPION, str(history[-2]))
    client.set_registered_model_tag(name, HISTORY, json.dumps(history[:-1]))
    return get(name, CHAMPION)
