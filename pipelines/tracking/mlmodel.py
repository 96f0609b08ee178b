"""MLmodel, the file in which MLflow describes a version; read without MLflow, whose import takes seconds."""

from pathlib import Path
from typing import Any

import yaml

from pipelines.core.errors import InputError
from pipelines.tracking.registered_version import Version

NAME = "MLmodel"


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
