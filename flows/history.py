"""history: who made which version of a registered model champion, when and why."""

from datetime import UTC, datetime
from typing import Any

from pipelines.core.errors import UsageError
from pipelines.tracking import ledger
from pipelines.tracking.events import Entry


def history(name: str) -> dict[str, Any]:
    """What the ledger of `name` says: the champion, every event that counts, those that do not, and its damage."""
    state = ledger.read(name)
    return {
        "model": name,
        "champion": state.champion,
        "events": [_row(entry) for entry in state.entries],
        "overtaken": [_row(entry) for entry in state.overtaken],
        "damage": list(state.damage),
    }


def _row(entry: Entry) -> dict[str, Any]:
    event = entry.event
    return {
        "number": entry.number,
        "at": _time(entry.at_ms),
        "action": event.action,
        "version": event.version,
        "previous": event.previous,
        "actor": event.actor,
        "reason": event.reason,
        "verdict": event.verdict,
    }


def champion_at(name: str, at: str) -> str:
    """One sentence: which version was champion at a time, such as 2026-11-23 or 2026-11-23T09:00+09:00."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise UsageError(f"--at {at}: no time; write it as 2026-11-23T09:00, or with a zone as +09:00") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    entry = ledger.read(name).at(round(moment.timestamp() * 1000))
    if entry is None:
        return f"{name} had no champion at {moment.isoformat()}"
    event = entry.event
    return f"{name} version {event.version} was champion: {event.actor}, {_time(entry.at_ms)}, {event.reason}"


def plain(found: dict[str, Any]) -> str:
    """The history as lines of text, the first event first."""
    lines = [f"{found['model']}: version {found['champion']} is the champion" if found["champion"] else "no champion"]
    for row in found["events"]:
        was = f" (before: {row['previous']})" if row["previous"] else ""
        said = f"{row['at']}  {row['action']:8} version {row['version']}{was}, {row['actor']}: {row['reason']}"
        lines.append(f"{row['number']:4}  {said}")
        lines += [f"      {finding['sentence']}" for finding in row["verdict"].get("findings", [])]
    lines += [
        f"{row['number']:4}  {row['at']}  {row['action']:8} version {row['version']}, {row['actor']}: "
        "does not count, another was first"
        for row in found["overtaken"]
    ]
    return "\n".join([*lines, *(f"      tampered with: {damage}" for damage in found["damage"])])


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
