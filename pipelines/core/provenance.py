"""The origin of an artefact: its params, inputs and versions, without a time, a host or a commit."""

import hashlib
import json
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unicodedata import category

from pipelines.core import json_file
from pipelines.core.errors import InputError, shown

FILE = "provenance.json"
TRAINING = "training.json"


def sha256(path: Path) -> str:
    """Digest of one file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(path: Path) -> str:
    """sha256 of an input: a file's bytes, a folder's provenance.json, or the names and bytes of a folder's files."""
    return sha256(path / FILE) if (path / FILE).is_file() else _of_files(path)


def content_digest(path: Path) -> str:
    """sha256 of a file's bytes, or of the names and bytes of a folder's files, with or without provenance.json.

    A linked file counts by its bytes; caches of DVC and of Hugging Face's hub link files. Raises InputError for what
    would make two different folders equal: a name with a line end, and a linked folder, whose files are not listed.
    """
    if path.is_dir():
        for inner in path.rglob("*"):
            _require_plain(path, inner)
    return _of_files(path)


def _of_files(path: Path) -> str:
    if path.is_file():
        return sha256(path)
    inner = sorted(p for p in path.rglob("*") if p.is_file())
    lines = (f"{sha256(p)}  {p.relative_to(path).as_posix()}\n" for p in inner)
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def _require_plain(folder: Path, inner: Path) -> None:
    if any(category(character) in ("Cc", "Cs") for character in inner.name):
        raise InputError(f"{folder}: {shown(inner.name)} has a control character in its name; rename it")
    if inner.is_symlink() and inner.is_dir():
        raise InputError(f"{inner}: a link to a folder, whose files no digest covers; put the folder in its place")


def write(
    folder: Path,
    stage: str,
    params: Mapping[str, Any],
    inputs: list[Path],
    packages: tuple[str, ...] = (),
    **facts: Any,
) -> None:
    """Write provenance.json into `folder`: the same params, inputs and package versions give the same bytes."""
    record = {
        "stage": stage,
        "params": dict(params),
        "inputs": {path.as_posix(): digest(path) for path in inputs},
        "versions": {name: version(name) for name in packages},
        **facts,
    }
    text = json.dumps(record, ensure_ascii=False, indent=1, sort_keys=True) + "\n"
    (folder / FILE).write_text(text, encoding="utf-8")


def read(folder: Path) -> dict[str, Any]:
    """The provenance of `folder`; {} if bertline did not make the folder."""
    path = folder / FILE
    return json_file.mapping(path) if path.is_file() else {}


def how(folder: Path) -> str:
    """Return in one word how the model in `folder` was made: its compression method or strategy, else its stage."""
    record = read(folder)
    made_by = record.get("params") or {}
    return made_by.get("method") or made_by.get("strategy") or record.get("stage", "imported")


def curve(folder: Path) -> list[list[Any]]:
    """The training curve in a model folder, points [step, {"loss": number, ...}]; [] if the folder has none."""
    path = folder / TRAINING
    return json_file.mapping(path).get("curve", []) if path.is_file() else []
