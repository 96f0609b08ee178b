"""history: who made which version of a registered model champion, when and why."""

from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from pipelines.core.errors import InputError, UsageError, printable
from pipelines.core.progress import say
from pipelines.evaluation import gates
from pipelines.tracking import ledger, registry
from pipelines.tracking.ledger_events import Entry, State


def _settled(name: str) -> State:
    """Move the alias of `name` where its ledger says, and return the ledger's state.

    Raises InputError for a name that is not there.
    """
    state = ledger.read(name)
    if not state.kept:
        registry.aliases_of(name)  # an alias there is not ours: nothing was promoted
        return state
    try:
        ledger.settle(name, replace(state, damage=()))
    except InputError as error:  # who may only read may read
        say(str(error))
    return state


def history(name: str) -> dict[str, Any]:
    """The content of the ledger of `name`: the champion, all events that count, those that do not, and the damage."""
    return told(name, _settled(name), _versions(name))


def _versions(name: str) -> set[int]:
    return {version.version for version in registry.versions(name)}


def told(name: str, state: State, versions: Collection[int]) -> dict[str, Any]:
    """The history that a ledger's state says; `versions` are those that were not removed."""
    return {
        "model": name,
        "champion": state.champion,
        "events": [_row(entry, state, versions) for entry in state.entries],
        "overtaken": [_row(entry, state, versions) for entry in state.overtaken],
        "repeated": [_row(entry, state, versions) for entry in state.repeated],
        "damage": list(state.damage),
        "removals": [_removal(entry) for entry in state.removals],
    }


def _removal(entry: Entry) -> dict[str, Any]:
    event = entry.event
    return {
        "number": entry.number,
        "at": _time(entry.at_ms),
        "versions": list(event.removed),
        "actor": event.actor,
        "reason": event.reason,
    }


def _row(entry: Entry, state: State, versions: Collection[int]) -> dict[str, Any]:
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
        "served": state.served(entry),
        "removed": event.version not in versions,
    }


def champion_at(name: str, at: str) -> dict[str, Any]:
    """The event that made the champion of a time, such as 2026-11-23 or 2026-11-23T09:00+09:00; None if none did."""
    try:
        moment = datetime.fromisoformat(at)
    except ValueError:
        raise UsageError(f"--at {at}: not a time; write it as 2026-11-23T09:00, or with a zone as +09:00") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    state = _settled(name)
    entry = state.at(round(moment.timestamp() * 1000))
    return {
        "model": name,
        "at": moment.isoformat(),
        "champion": entry.event.version if entry else None,
        "event": _row(entry, state, _versions(name)) if entry else None,
    }


def plain_at(state: dict[str, Any]) -> str:
    """The champion of a time as a sentence."""
    if not (event := state["event"]):
        return f"{state['model']} had no champion at {state['at']}"
    who = f"{event['actor']}, {event['at']}, {event['reason']}"
    gone = ", which was removed since," if event["removed"] else ""
    return printable(f"{state['model']} version {event['version']}{gone} was champion: {who}")


def plain(history: dict[str, Any]) -> str:
    """The history as lines of text, the first event first."""
    champion = f": version {history['champion']} is the champion" if history["champion"] else " has no champion"
    lines_of = {row["number"]: _lines(row) for row in history["events"]}
    lines_of |= {row["number"]: [_removal_line(row)] for row in history["removals"]}
    lines = [history["model"] + champion, *(line for _, event in sorted(lines_of.items()) for line in event)]
    for key, why in (("overtaken", "another event was first"), ("repeated", "it repeats an earlier event")):
        lines += [
            f"{row['number']:4}  {row['at']}  {row['action']:8} version {row['version']}, {row['actor']}: "
            f"does not count, {why}"
            for row in history[key]
        ]
    lines += [f"      tampered with: {damage}" for damage in history["damage"]]
    return "\n".join(map(printable, lines))


def _lines(row: dict[str, Any]) -> list[str]:
    """The lines of an event that says who is champion."""
    was = f" (before: {row['previous']})" if row["previous"] else ""
    gone = ", which was removed since" if row["removed"] else ""
    event = f"{row['at']}  {row['action']:8} version {row['version']}{gone}{was}, {row['actor']}: {row['reason']}"
    findings = [f"      {finding.sentence}" for finding in gates.findings(row["verdict"])]
    served = [f"      {row['served']['summary']}"] if "summary" in row["served"] else []
    return [f"{row['number']:4}  {event}", *findings, *served]


def _removal_line(row: dict[str, Any]) -> str:
    versions = ", ".join(f"version {number}" for number in row["versions"])
    return f"{row['number']:4}  {row['at']}  prune    {versions}, {row['actor']}: {row['reason']}"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")
