"""Plugins: a folder is the registry, and each module in it is one plugin, named by its file."""

import importlib
import pkgutil
from types import ModuleType

from pipelines.core.errors import UsageError, choices


def names(package: str) -> list[str]:
    """Names of the plugins in `package`, sorted."""
    return sorted(m.name for m in pkgutil.iter_modules(importlib.import_module(package).__path__) if not m.ispkg)


def load(package: str, name: str) -> ModuleType:
    """The plugin module `name` of `package`, such as `load("pipelines.data.corpora", "livedoor")`."""
    there_are = names(package)
    if name not in there_are:
        raise UsageError(choices(package.removeprefix("pipelines."), name, there_are))
    return importlib.import_module(f"{package}.{name}")
