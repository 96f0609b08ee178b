"""The status of a checkout: stale stages, champions, the last stages that ran, drift, and disk use."""

import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.core import params
from pipelines.core.errors import InputError, one_line
from pipelines.entries.score import Score
from pipelines.entries.watch import Watch
from pipelines.evaluation import drift
from pipelines.graph import executor, params_findings, why
from pipelines.lifecycle import window_drift
from pipelines.tracking import ledger, registry, store
from pipelines.tracking.registry_snapshot import CHALLENGER

MOST_RUNS = 5  # the last stages that are listed
FOLDERS = ("artifacts", ".dvc/cache", "state/mlflow", "state")
Part = Any  # lists and dictionaries of JSON; {"problem": sentence} where a part cannot be read


def parts() -> dict[str, Part]:
    """Every part of the status; one that cannot be read does not stop the others."""
    return {
        "stale": _read(stale),
        "champions": _read(champions),
        "last_runs": _read(last_runs),
        "drift": _read(drifted),
        "disk": _read(disk),
    }


def _read(part: Callable[[], Part]) -> Part:
    try:
        return part()
    except (InputError, OSError) as error:
        return {"problem": one_line(error)}


def stale() -> dict[str, Any]:
    """{"stages": count, "would_run": {stage: reason}}, as `bertline run --dry` says."""
    params_findings.require_form()
    count, reasons = why.affected([])
    return {"stages": count, "would_run": reasons}


def champions() -> list[dict[str, Any]]:
    """{"model", "champion", "since", "actor", "reason", "challenger", "versions", "replay"} of each registered model.

    Empty if nothing was ever registered here; a store is not made for this.
    """
    if not store.is_there():
        return []
    numbers: dict[str, list[int]] = {}
    for version in registry.versions():
        numbers.setdefault(version.name, []).append(version.version)
    return [_champion(name, versions) for name, versions in numbers.items()]


def _champion(name: str, versions: list[int]) -> dict[str, Any]:
    state = ledger.read(name)
    made = state.entries[-1] if state.entries else None
    challenger = registry.aliases_of(name).get(CHALLENGER)
    return {
        "model": name,
        "champion": state.champion,
        "since": _time(made.at_ms / 1000) if made else None,
        "actor": made.event.actor if made else None,
        "reason": made.event.reason if made else None,
        "challenger": int(challenger) if challenger else None,
        "versions": versions,
        "replay": state.served(made).get("replay", {}).get("sentence", "") if made else "",
    }


def last_runs() -> list[dict[str, Any]]:
    """{"stage", "at", "seconds"} of the stages that ran last in this checkout, the newest first."""
    logs = sorted(executor.LOGS.glob("*.log"), key=lambda log: log.stat().st_mtime, reverse=True)
    seconds = executor.seconds()
    ran = [log for log in logs if log.stem in seconds][:MOST_RUNS]
    return [{"stage": log.stem, "at": _time(log.stat().st_mtime), "seconds": seconds[log.stem]} for log in ran]


def drifted() -> list[dict[str, Any]]:
    """{"job", "window", "windows", "statistics", "alarm"} of each job under `watch`, of the windows measured."""
    jobs = []
    for job in params.read().get("watch", {}):
        rules = params.entry("watch", job, Watch)
        lines_by_window = window_drift.measured(job, params.entry("score", job, Score), rules)
        flags = [any(line["drifted"] for line in lines) for lines in lines_by_window.values()]
        last = list(lines_by_window)[-1] if lines_by_window else None
        statistics = [line["statistic"] for line in lines_by_window[last] if line["drifted"]] if last else []
        alarm = drift.alarm(flags, rules.least, rules.of)
        count = len(lines_by_window)
        jobs.append({"job": job, "window": last, "windows": count, "statistics": statistics, "alarm": alarm})
    return jobs


def disk() -> dict[str, Any]:
    """{"folders": {folder: bytes}, "free": bytes}; `state` is without state/mlflow."""
    folders = {folder: _bytes(Path(folder)) for folder in FOLDERS if Path(folder).is_dir()}
    if "state/mlflow" in folders and "state" in folders:
        folders["state"] -= folders["state/mlflow"]
    return {"folders": folders, "free": shutil.disk_usage(".").free}


def _bytes(folder: Path) -> int:
    """The bytes on disk of a folder; a file that has several links in it counts once."""
    seen: dict[int, int] = {}
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                status = os.lstat(os.path.join(place, name))
            except FileNotFoundError:  # somebody works here meanwhile
                continue
            seen[status.st_ino] = status.st_blocks * 512
    return sum(seen.values())


def _time(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds")
