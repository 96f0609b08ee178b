"""The manifest of a scoring job: one file for each finished partition, and at the end one for the whole job.

docs/decisions/020-the-scoring-manifest.md describes the files.
"""

import hashlib
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pipelines.core import json_file
from pipelines.core.canonical_json import canonical
from pipelines.core.errors import InputError
from pipelines.scoring.job_folders import Folder

FOLDER = "_manifest"
SUMMARY = "_manifest.json"
FORMAT = 1
MEASURED = "measured"  # times and rates, which differ from run to run; no digest covers them
TIMES = ("seconds", "cpu_seconds")
ORIGINS = ("taken_over", "from_states")  # of rows that were not scored in full
COMPARED = (
    "compared",
    "differing",
)  # rows that a cascade and its champion both answered
PARTITION, REPLAY = "partition", "replay"  # kinds of entries
Entry = dict[str, Any]
# what an entry must have, with the type of it
FIELDS: dict[str, type] = {
    "kind": str,
    "source": str,
    "source_digest": str,
    "rows": int,
    "scored": int,
    "quarantined": int,
    "output": str,
    "output_digest": str,
    "key": str,
    "model": str,
    "version": int,
    "model_digest": str,
    MEASURED: dict,
}


def key(source_digest: str, model_digest: str, params: dict[str, Any]) -> str:
    """The digest of a piece of work: of its input, its model and its params."""
    return hashlib.sha256(canonical([source_digest, model_digest, params])).hexdigest()


def facts(entry: Entry) -> Entry:
    """An entry without what was measured: the same work has the same facts."""
    return {name: value for name, value in entry.items() if name != MEASURED}


def root(entries: Iterable[Entry]) -> str:
    """The Merkle root of entries, sorted by their outputs (RFC 6962, section 2.1: 0 before a leaf, 1 before a node)."""
    ordered = sorted(entries, key=lambda entry: entry["output"])
    level = [hashlib.sha256(b"\0" + canonical(facts(entry))).digest() for entry in ordered]
    if not level:
        return hashlib.sha256(b"").hexdigest()
    while len(level) > 1:
        pairs = [hashlib.sha256(b"\1" + level[i] + level[i + 1]).digest() for i in range(0, len(level) - 1, 2)]
        level = pairs + level[len(pairs) * 2 :]
    return level[0].hex()


def write(target: Folder, name: str, entry: Entry) -> None:
    """Name a finished partition in the manifest; from here on it is done."""
    target.write_json(f"{FOLDER}/{name}.json", entry)


def read(target: Path) -> dict[str, Entry]:
    """The entries of a job by the name of their file, without suffix. Raises InputError if one is damaged."""
    return {file.stem: read_entry(file) for file in files(target)}


def files(target: Path) -> list[Path]:
    """The entries' files in order."""
    return sorted((target / FOLDER).glob("*.json"))


def read_entry(file: Path) -> Entry:
    """One entry. Raises InputError if it is not one."""
    entry = json_file.mapping(file)
    for name, kind in FIELDS.items():
        if type(entry.get(name)) is not kind:
            raise InputError(f"{file}: not an entry of a manifest: {name} is missing, or no {kind.__name__}")
    if any(type(entry[MEASURED].get(name)) not in (int, float) for name in TIMES):
        raise InputError(f"{file}: not an entry of a manifest: {MEASURED} has no {' or '.join(TIMES)}")
    if any(type(entry[MEASURED].get(name, 0)) is not int for name in (*ORIGINS, *COMPARED)):
        raise InputError(f"{file}: not an entry of a manifest: a count of {MEASURED} is no whole number")
    return entry


def read_summary(file: Path) -> dict[str, Any]:
    """The summary of a finished job. Raises InputError if it is not one."""
    content = json_file.mapping(file)
    took = content.get(MEASURED)
    if any(type(content.get(name)) is not int for name in ("partitions", "rows")) or not isinstance(took, dict):
        raise InputError(f"{file}: not the summary of a job: partitions, rows or {MEASURED} is missing, or damaged")
    if type(took.get("rows_per_second")) not in (int, float) or not isinstance(took.get("ended", ""), str):
        raise InputError(f"{file}: not the summary of a job: the rate or the time of {MEASURED} is damaged")
    return content


def summary(entries: Iterable[Entry]) -> dict[str, Any]:
    """The counts of a finished job, its Merkle root, its model, and what it took."""
    entries = list(entries)
    partitions = [entry for entry in entries if entry["kind"] == PARTITION]
    replays = [entry for entry in entries if entry["kind"] == REPLAY]
    replayed = sum(entry["scored"] for entry in replays)
    counts = {name: sum(entry[name] for entry in partitions) for name in ("rows", "scored", "quarantined")}
    first: Entry = partitions[0] if partitions else {}
    took = {name: sum(entry[MEASURED][name] for entry in entries) for name in TIMES}
    origins = {name: sum(entry[MEASURED].get(name, 0) for entry in entries) for name in ORIGINS}
    names = [name for name in COMPARED if any(name in entry[MEASURED] for entry in entries)]
    compared = {name: sum(entry[MEASURED].get(name, 0) for entry in entries) for name in names}
    ended = max((entry[MEASURED].get("ended", "") for entry in entries), default="")
    return {
        "format": FORMAT,
        "partitions": len(partitions),
        "replays": len(replays),
        "rows": counts["rows"],
        "scored": counts["scored"] + replayed,
        "quarantined": counts["quarantined"] - replayed,
        **{name: first.get(name) for name in ("model", "version", "model_digest")},
        "root": root(entries),
        MEASURED: measured(counts["scored"] + replayed, **took, **origins, ended=ended) | compared,
    }


def origins(summary: dict[str, Any]) -> str:
    """The numbers of rows that were not scored in full, and of compared rows, in words; "" if there are none."""
    taken, from_states = (summary[MEASURED].get(name, 0) for name in ORIGINS)
    over = f", {taken:,} of them taken over from an earlier job" if taken else ""
    over += f", {from_states:,} of them by the head alone from an earlier job's states" if from_states else ""
    over = f"{over}, {summary['scored'] - taken - from_states:,} in full" if over else ""
    if compared := summary[MEASURED].get("compared"):
        differing = summary[MEASURED]["differing"]
        over += f"; the champion of the cascade answered {compared:,} of them too, {differing:,} otherwise"
    return over


def now() -> str:
    """The time, UTC, in ISO 8601. It is for people: no time decides anything."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def measured(
    rows: int, seconds: float, cpu_seconds: float, taken_over: int = 0, ended: str = "", from_states: int = 0
) -> dict[str, float | str]:
    """The time that rows took, the rate, and the cost: seconds of a core for a million rows.

    Args:
        taken_over: how many of the rows have the answer of an earlier job.
        ended: when they were done.
        from_states: how many were answered by the head alone, from the encoder states of an earlier job.
    """
    return {
        "seconds": round(seconds, 3),
        "cpu_seconds": round(cpu_seconds, 3),
        "rows_per_second": round(rows / seconds, 1) if seconds else 0.0,
        "cpu_seconds_per_million_rows": round(cpu_seconds / rows * 1e6, 1) if rows else 0.0,
        "taken_over": taken_over,
        "from_states": from_states,
        "ended": ended,
    }
