"""The events of a ledger that this checkout has read before: they show what was changed or removed since."""

import contextlib
import hashlib
import itertools
from collections.abc import Sequence
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from pipelines.core import json_file
from pipelines.core.errors import InputError
from pipelines.tracking.ledger_events import Kept

FOLDER = Path("state/ledger")
MOST_EVENTS = 2**31  # the registry's version numbers are smaller
_KEPT = TypeAdapter(list[Kept])


def file(address: str, name: str) -> Path:
    """The file that caches the events of the ledger of `name` in the store at `address`."""
    return FOLDER / f"{hashlib.sha256(f'{address} {name}'.encode()).hexdigest()[:16]}.json"


def events(path: Path) -> list[Kept]:
    """The events in a cache file; empty if the file is missing or damaged."""
    try:
        records = _KEPT.validate_python(json_file.read(path))
    except (InputError, ValidationError, OSError):
        return []
    rising = all(a.number < b.number for a, b in itertools.pairwise(records))
    return records if rising and all(0 < record.number < MOST_EVENTS for record in records) else []


def remember(path: Path, records: Sequence[Kept]) -> None:
    """Write the events to a cache file, if that is possible and if they begin with those that it has.

    Otherwise an event was changed or removed. The file is the evidence, and only a person removes it.
    """
    known = events(path)
    if [*records[: len(known)]] != known:
        return
    with contextlib.suppress(InputError, OSError):  # another process writes it too, or the folder is read-only
        json_file.write(path, list(records))
