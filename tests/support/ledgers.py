"""A ledger under test: changes to it, and what must be true of it at any time."""

import random
import tempfile
from pathlib import Path

from pipelines.core.errors import InputError
from pipelines.tracking import ledger, registry, store

VERSIONS = (1, 2, 3, 4)


def register_versions() -> None:
    """Four versions of `m`, none of which is champion, and none of which holds a model."""
    store.connect().create_registered_model("m")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, registry.MLMODEL).write_text("flavors: {python_function: {artifacts: {}}}")
        for _ in VERSIONS:
            upload("m", Path(folder))


def upload(name: str, folder: Path) -> int:
    """Any files as the next version of a model, by MLflow's own client."""
    client = store.connect()
    run = client.create_run(store.experiment(client))
    client.log_artifacts(run.info.run_id, str(folder), "model")
    place = f"{run.info.artifact_uri}/model"
    return int(client.create_model_version(name, place, run.info.run_id, await_creation_for=0).version)


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
