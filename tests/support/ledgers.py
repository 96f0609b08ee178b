"""A ledger under test: changes to it, and what must be true of it at any time."""

import random

from pipelines.core.errors import InputError
from pipelines.tracking import ledger, store

VERSIONS = (1, 2, 3, 4)


def register_versions() -> None:
    """Four versions of `m`, none of which is champion, and none of which can be opened."""
    client = store.connect()
    client.create_registered_model("m")
    for _ in VERSIONS:
        client.create_model_version("m", "s3://nowhere/m", await_creation_for=0)


def other(draw: random.Random, champion: int | None) -> int:
    """A version that is not the champion."""
    return draw.choice([number for number in VERSIONS if number != champion])


def change(draw: random.Random) -> bool:
    """Promote some version, or roll back; returns whether it counts."""
    known = ledger.read("m")
    try:
        if len(known.champions) > 1 and draw.random() < 0.4:
            ledger.append("m", known, "rollback", known.champions[-2], "a test")
        else:
            ledger.append("m", known, "promote", other(draw, known.champion), "a test")
    except InputError as error:
        if "was first and made version" in str(error):
            return False
        raise
    return True


def alias() -> int | None:
    """The version that MLflow calls champion."""
    held = store.connect().get_registered_model("m").aliases.get("champion")
    return int(held) if held else None


def require_order(entries: int | None = None, settled: bool = True) -> ledger.State:
    """The ledger, after a check that it is whole and that the alias follows it.

    Args:
        settled: false after a kill, when only the next command has to put the alias in its place.
    """
    state = ledger.read("m")
    assert not state.damage
    assert entries is None or len(state.entries) == entries
    numbers = sorted(entry.number for entry in (*state.entries, *state.overtaken, *state.repeated))
    assert numbers == list(range(1, len(numbers) + 1))
    champion = None
    for entry in state.entries:
        assert entry.event.previous == champion
        champion = entry.event.version
    if settled:
        assert alias() == state.champion
    return state
