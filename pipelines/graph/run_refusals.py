"""Refusals of a run of the graph in its own words, where DVC's are of no help or come too late."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pipelines.core import params, paths, provenance
from pipelines.core.errors import InputError
from pipelines.graph import checking

MERGE_MARK = b"<<<<<<<"  # git writes it where two branches differ


def require_merged() -> None:
    """Raise InputError if a merge left its marks in dvc.lock."""
    lock = paths.DVC_LOCK
    if lock.is_file() and any(line.startswith(MERGE_MARK) for line in lock.read_bytes().splitlines()):
        raise InputError(
            f"{lock} has the marks of a merge; take one of the two (`git checkout --ours {lock}`, or --theirs), "
            "then `bertline run`"
        )


def require_outs_within(repo: Any, stages: Iterable[Any]) -> None:
    """Raise InputError if a stage would write outside of the checkout, through a link to a folder.

    DVC fails on such an output only after the stage has run.
    """
    root = Path(repo.root_dir)
    for folder in sorted({Path(out.fs_path).parent for stage in stages for out in stage.outs if out.is_in_repo}):
        if not folder.resolve().is_relative_to(root.resolve()):
            link = next(place for place in (*reversed(folder.parents), folder) if place.is_symlink())
            raise InputError(
                f"{link.relative_to(root)} is a link to {link.resolve()}, and DVC needs it in the checkout; mount the "
                "disk there, or move only the cache (`dvc cache dir`)"
            )


def require_here(stage: Any) -> None:
    """Raise InputError if an output of a stage without a command is missing."""
    if missing := [str(out) for out in stage.outs if not out.exists]:
        raise InputError(f"{', '.join(missing)}: not here; `dvc pull {stage.addressing}` brings it")


def require_unedited(stage: Any) -> None:
    """Raise InputError if a stage that has ended may have read other params or files than when it began.

    dvc.lock and DVC's run-cache would name the output after what did not make it. DVC hashes no file again that has
    its size, time and inode of before.
    """
    name = stage.addressing
    for dep in stage.deps:
        if dep in stage.params:
            if _read_others(stage, dep.hash_info.value or {}):
                raise InputError(f"{params.FILE}: {name.replace('@', '.')} was edited while {name} began; run again")
        elif not dep.exists or dep.changed_checksum():
            raise InputError(f"{dep} was edited while {name} ran; run again")


def _read_others(stage: Any, begun: dict[str, Any]) -> bool:
    """Return whether the provenance of an output names other params than those of when the stage began."""
    section, _, key = stage.addressing.partition("@")
    for out in stage.outs:
        made = provenance.read(Path(out.fs_path))
        if made.get("stage") == section and f"{section}.{key}" in begun:
            entry = params.parse(checking.section(section), begun[f"{section}.{key}"], f"{section}.{key}")
            values = json.loads(json.dumps(entry.model_dump()))
            return any(values.get(name) != value for name, value in made["params"].items())
    return False
