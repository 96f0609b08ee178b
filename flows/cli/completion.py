"""Names that a shell completes: runs, models, versions, stages, jobs; none where they cannot be read."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from pipelines.core import paths
from pipelines.tracking import local_versions

Complete = Callable[[str], list[str]]


def of_sections(*sections: str) -> Complete:
    """Complete the names of the entries of these sections of params.yaml."""
    return lambda incomplete: _beginning(incomplete, [name for section in sections for name in _entries(section)])


def evaluated(incomplete: str) -> list[str]:
    """Complete the names of the runs that have been evaluated."""
    return _beginning(incomplete, [file.stem for file in Path("artifacts/scores").glob("*.json")])


def versions(incomplete: str) -> list[str]:
    """Complete NAME@champion and NAME@3 of the models that are registered in this checkout."""
    listed = local_versions.listed()
    names = dict.fromkeys(name for name, _ in listed)
    return _beginning(incomplete, [*(f"{name}@champion" for name in names), *(f"{name}@{n}" for name, n in listed)])


def served(incomplete: str) -> list[str]:
    """Complete NAME, NAME@ALIAS and NAME@NUMBER, as `bertline serve` takes them."""
    listed = local_versions.listed()
    names = dict.fromkeys(name for name, _ in listed)
    aliases = [f"{name}@{alias}" for name in names for alias in ("champion", "challenger")]
    return _beginning(incomplete, [*names, *aliases, *(f"{name}@{number}" for name, number in listed)])


def stages(incomplete: str) -> list[str]:
    """Complete the names of the graph's stages, as in dvc.lock."""
    locked = _mapping(paths.DVC_LOCK).get("stages")
    return _beginning(incomplete, list(locked) if isinstance(locked, dict) else [])


def ready_made(incomplete: str) -> list[str]:
    """Complete the ready-made params files."""
    return _beginning(incomplete, [file.as_posix() for file in Path("params").glob("*.yaml")])


def _entries(section: str) -> list[str]:
    entries = _mapping(Path("params.yaml")).get(section)
    return list(map(str, entries)) if isinstance(entries, dict) else []


def _mapping(file: Path) -> dict[str, Any]:
    import yaml

    with suppress(OSError, ValueError, yaml.YAMLError, RecursionError):
        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        content = yaml.load(file.read_text(encoding="utf-8"), loader)
        return content if isinstance(content, dict) else {}
    return {}


def _beginning(incomplete: str, names: list[str]) -> list[str]:
    return sorted({name for name in names if name.startswith(incomplete)})
