"""A version of a registered model, and what its file MLmodel says; without MLflow, whose import takes seconds."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from pipelines.core import provenance
from pipelines.core.errors import InputError, choices

MLMODEL = "MLmodel"  # MLflow's description of a version
RUNTIME = "runtime"  # the tag with the runtime that serves the version
# runtime -> the artifact that it opens; by default the first that the version has
FOLDERS = {"onnx": "onnx", "torch": "model"}


@dataclass(frozen=True)
class Version:
    """One version of a registered model."""

    name: str
    version: int
    tags: dict[str, str] = field(compare=False)

    def __str__(self) -> str:
        return f"{self.name} version {self.version}"


def described(file: Path) -> dict[str, Any]:
    """The content of the file MLmodel. It is not trusted: every user who may register can write it.

    Raises InputError if it describes no model.
    """
    try:
        content: Any = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, ValueError):
        content = None
    if not isinstance(content, dict) or not isinstance(content.get("flavors"), dict):
        raise InputError(f"{file}: it does not describe a model; register the model again")
    return content


def artifacts(version: Version, file: Path) -> dict[str, str]:
    """The artifacts of a version by its file MLmodel: name -> path in the version."""
    try:
        logged = described(file)["flavors"]["python_function"]["artifacts"]
        return {str(name): str(artifact["path"]) for name, artifact in logged.items()}
    except (KeyError, TypeError, AttributeError):
        raise foreign(version) from None


def foreign(version: Version) -> InputError:
    """The refusal of a version that another tool registered."""
    return InputError(f"{version} was not registered by `bertline retrain`: it has no model folder")


def of_runtime(version: Version, names: dict[str, str], runtime: str = "") -> str:
    """The name, among those of its artifacts, of the folder that a version is opened from by a runtime.

    By default the runtime is that of the version's tag. Older versions have no such tag: they are opened from the
    exported folder, else from the model folder. Raises InputError for an unknown runtime, or one without a folder.
    """
    runtime = runtime or version.tags.get(RUNTIME, "")
    if runtime and runtime not in FOLDERS:
        raise InputError(choices("runtime", runtime, FOLDERS))
    wanted = [FOLDERS[runtime]] if runtime else list(FOLDERS.values())
    name = next((name for name in wanted if name in names), "")
    if not name:
        raise InputError(f"{version} was registered without {wanted[0]}; add its run to export: and retrain")
    return name


def digest_as_promoted(version: Version, name: str, place: Path, promoted: dict[str, str]) -> str:
    """The digest of an artifact of a version, which is at `place`.

    A user who may register can also rename a model, create another of its name, or overwrite uploaded files.

    Args:
        promoted: the content of the version by the ledger when it became champion; empty if it never was.

    Raises:
        InputError: the artifact has changed since.
    """
    digest = provenance.contents(place)
    changed = promoted and promoted.get(name) != digest
    if changed or promoted.get(RUNTIME, version.tags.get(RUNTIME)) != version.tags.get(RUNTIME):
        raise InputError(
            f"{version}: its {name if changed else RUNTIME} changed since promotion: the ledger has another digest. "
            "It is not opened; find out who changed it, and use `bertline rollback` for an earlier version"
        )
    return digest
