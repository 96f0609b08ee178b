"""The DVC graph for a flow: bring it up to date, and what its stages wrote."""

from pathlib import Path
from typing import Any

import yaml

from pipelines.graph import execute

LOCK = Path("dvc.lock")


def reproduce(targets: list[str] | None = None) -> list[str]:
    """Run what is stale; returns the stages that wrote something new, such as `finetune@livedoor`."""
    before = _stages()
    ran = execute.run(targets or [])
    after = _stages()
    return [name for name in ran if after.get(name) != before.get(name) or name not in before]


def outputs(stage: str) -> dict[str, str]:
    """The paths that `stage` wrote and their md5s, from dvc.lock."""
    return {out["path"]: out["md5"] for out in _stages().get(stage, {}).get("outs", [])}


def _stages() -> dict[str, Any]:
    if not LOCK.is_file():
        return {}
    return (yaml.safe_load(LOCK.read_text(encoding="utf-8")) or {}).get("stages") or {}
