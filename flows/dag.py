"""Run the DVC graph from a flow: `dvc repro` with its output passed on, and the stages that ran."""

import os
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any

import yaml

from pipelines.core.errors import InputError

LOCK = Path("dvc.lock")
HINTS = ("To track the changes", "\tgit add", "To enable auto", "\tdvc config", "Use `dvc push`", "Updating lock file")


def reproduce(targets: list[str] | None = None) -> list[str]:
    """Run `dvc repro` and return the stages that it ran, such as `finetune@livedoor`."""
    before = _stages()
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"}
    command = [sys.executable, "-m", "dvc", "repro", *(targets or [])]
    last: deque[str] = deque(maxlen=8)  # the stage's own error comes shortly before DVC's
    ran = []
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as dvc:
        assert dvc.stdout is not None
        for line in dvc.stdout:
            if line.startswith("Running stage '"):
                ran.append(line.split("'")[1])
            if line.strip():
                last.append(line.rstrip())
                if not os.environ.get("BERTLINE_QUIET") and not line.startswith(HINTS):
                    print(line, end="", file=sys.stderr, flush=True)
    if dvc.returncode:
        raise InputError(_reason(list(last)))
    after = _stages()
    return [name for name in ran if after.get(name) != before.get(name) or name not in before]


def outputs(stage: str) -> dict[str, str]:
    """The paths that `stage` wrote and their md5s, from dvc.lock."""
    return {out["path"]: out["md5"] for out in _stages().get(stage, {}).get("outs", [])}


def _stages() -> dict[str, Any]:
    if not LOCK.is_file():
        return {}
    return (yaml.safe_load(LOCK.read_text(encoding="utf-8")) or {}).get("stages") or {}


def _reason(lines: list[str]) -> str:
    """The stage's own error and DVC's after it."""
    told = [line for line in lines if not line.startswith(("> ", "Running stage"))]
    if any("Unable to acquire lock" in line or "is busy" in line for line in told):
        return "another `dvc repro` runs in this checkout; wait for it (dvc says: " + told[-1].strip() + ")"
    return " ".join(told[-3:])
