"""dvc.lock: what each stage read and wrote, and all that was made before a stage."""

from typing import Any

import yaml

from pipelines.core import paths
from pipelines.graph import code_manifest

Stages = dict[str, Any]


def outputs(stage: str, stages: Stages) -> dict[str, str]:
    """The paths that `stage` wrote and their md5s."""
    return {out["path"]: out["md5"] for out in stages.get(stage, {}).get("outs", [])}


def entry(name: str, stages: Stages) -> dict[str, Any]:
    """The entry of params.yaml that the stage `name` ran with; {} if it has none, or never ran."""
    values: dict[str, Any] = _params(name, stages).get(name.replace("@", "."), {})
    return values


def _params(stage: str, stages: Stages) -> dict[str, Any]:
    values: dict[str, Any] = stages.get(stage, {}).get("params", {}).get("params.yaml", {})
    return values


def made_of(stage: str, stages: Stages) -> list[dict[str, Any]]:
    """A stage and all before it, the first to be made first; with the md5s of what each read and wrote.

    Code is left out: the commit says which it was.
    """
    wrote = {out["path"]: name for name, entry in stages.items() for out in entry.get("outs", [])}
    read_and_wrote: dict[str, dict[str, Any]] = {}

    def add(name: str) -> None:
        deps = {
            dep["path"]: dep["md5"] for dep in stages[name].get("deps", []) if not code_manifest.is_code(dep["path"])
        }
        for path in deps:
            if path in wrote and wrote[path] not in read_and_wrote:
                add(wrote[path])
        wrote_here, values = outputs(name, stages), _params(name, stages)
        read_and_wrote[name] = {"stage": name, "read": deps, "wrote": wrote_here, "params": values}

    if stage in stages:
        add(stage)
    return list(read_and_wrote.values())


def locked() -> Stages:
    """The stages of dvc.lock by their names: of each deps, params and outs."""
    if not paths.DVC_LOCK.is_file():
        return {}
    lock = yaml.load(paths.DVC_LOCK.read_bytes(), yaml.CSafeLoader) or {}  # in a fifth of the time
    return lock.get("stages") or {}
