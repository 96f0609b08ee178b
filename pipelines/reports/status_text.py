"""The status of a checkout as one screen of text."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from pipelines.core.errors import printable

SHOWN = 8  # stale stages that are listed
WIDE = 110  # characters of a line


def plain(status: dict[str, Any]) -> str:
    """A heading and a few lines for each part; a part that cannot be read says why."""
    makers: dict[str, Callable[[Any], Iterable[str]]] = {
        "stale": _stale,
        "served": _served,
        "champions": _champions,
        "last_runs": _last_runs,
        "schedules": _schedules,
        "drift": _drift,
        "disk": _disk,
    }
    lines = []
    for part, make in makers.items():
        content = status[part]
        named = isinstance(content, dict) and "problem" in content
        where = f"{content['address']}: " if named and "address" in content else ""
        lines.append(part.replace("_", " "))
        lines += [f"  {_cut(line)}" for line in ([where + content["problem"]] if named else make(content))]
    return "\n".join(map(printable, lines))


def _cut(line: str) -> str:
    return line if len(line) <= WIDE else f"{line[: WIDE - 3]}..."


def _stale(part: dict[str, Any]) -> Iterator[str]:
    stale = part["would_run"]
    yield f"{len(stale)} of {part['stages']} stages would run" if stale else f"{part['stages']} stages are up to date"
    yield from (f"{name}: {reason}" for name, reason in list(stale.items())[:SHOWN])
    if len(stale) > SHOWN:
        yield f"... and {len(stale) - SHOWN} more: bertline run --dry"


def _served(part: dict[str, Any]) -> Iterator[str]:
    models = ", ".join(f"{model['name']} version {model['version']}" for model in part["models"])
    yield f"{part['address']} serves {models or 'nothing'}"


def _champions(part: list[dict[str, Any]]) -> Iterator[str]:
    if not part:
        yield "nothing is registered; bertline retrain"
    for model in part:
        champion = f"version {model['champion']} since {model['since']}, {model['actor']}: {model['reason']}"
        yield f"{model['model']}: {champion if model['champion'] else 'no champion'}"
        if model.get("replay"):
            yield f"  beside the champion before it: {model['replay']}"
        if model["challenger"] and model["challenger"] != model["champion"]:
            yield f"  version {model['challenger']} is the challenger: bertline promote {model['model']}"


def _last_runs(part: list[dict[str, Any]]) -> Iterator[str]:
    if not part:
        yield "no stage has run here; bertline run"
    yield from (f"{run['at']}  {run['stage']}, {run['seconds']:g} s" for run in part)


def _schedules(part: dict[str, Any]) -> Iterator[str]:
    yield from (f"{run['at']}  {run['deployment'] or run['run']}: {run['state'].lower()}" for run in part["last"])
    yield from (f"{run['at']}  {run['deployment'] or run['run']}: next" for run in part["next"])
    if not (part["last"] or part["next"]):
        yield "no run yet, and none is scheduled"


def _drift(part: list[dict[str, Any]]) -> Iterator[str]:
    if not part:
        yield "no job is watched"
    for job in part:
        if not job["windows"]:
            yield f"{job['job']}: no window is measured; bertline watch {job['job']}"
            continue
        drifted = f"drifted: {', '.join(job['statistics'])}" if job["statistics"] else "no drift"
        alarm = "; ALARM" if job["alarm"] else ""
        yield f"{job['job']}: {job['window']} {drifted}{alarm} ({job['windows']} windows)"


def _disk(part: dict[str, Any]) -> Iterator[str]:
    used = ", ".join(f"{folder} {_size(count)}" for folder, count in part["folders"].items())
    yield f"{used or 'nothing is used'}; {_size(part['free'])} free"


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.0f} MB"
