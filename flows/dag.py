"""The DVC graph for a flow: bring it up to date, and what its stages wrote."""

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import yaml

from pipelines.core.stage import alone
from pipelines.graph import code_manifest, executor
from pipelines.graph.run_display import Board

LOCK = Path("dvc.lock")
Stages = dict[str, Any]


def workspace() -> AbstractContextManager[None]:
    """Hold the workspace: no other run of the graph begins. Raises InputError while one runs in another process."""
    return alone(*executor.WORKSPACE)


def reproduce(targets: list[str] | None = None, board: Board | None = None, held: bool = False) -> list[str]:
    """Run what is stale; returns the stages that ran, such as `finetune@livedoor`.

    `held` says that the caller holds the workspace.
    """
    return executor.run(targets or [], board=board, held=held)


def outputs(stage: str, stages: Stages) -> dict[str, str]:
    """The paths that `stage` wrote and their md5s."""
    return {out["path"]: out["md5"] for out in stages.get(stage, {}).get("outs", [])}


def made_of(stage: str, stages: Stages) -> list[dict[str, Any]]:
    """A stage and all before it, the first to be made first; with the md5s of what each read and wrote.

    Code is left out: the commit says which it was.
    """
    wrote = {out["path"]: name for name, each in stages.items() for out in each.get("outs", [])}
    read_and_wrote: dict[str, dict[str, Any]] = {}

    def add(name: str) -> None:
        deps = {
            dep["path"]: dep["md5"] for dep in stages[name].get("deps", []) if not code_manifest.is_code(dep["path"])
        }
        for path in deps:
            if path in wrote and wrote[path] not in read_and_wrote:
                add(wrote[path])
        params = stages[name].get("params", {}).get("params.yaml", {})
        read_and_wrote[name] = {"stage": name, "read": deps, "wrote": outputs(name, stages), "params": params}

    if stage in stages:
        add(stage)
    return list(read_and_wrote.values())


def locked() -> Stages:
    """The stages of dvc.lock by their names: of each deps, params and outs."""
    if not LOCK.is_file():
        return {}
    return (yaml.load(LOCK.read_bytes(), yaml.CSafeLoader) or {}).get("stages") or {}  # in a fifth of the time
