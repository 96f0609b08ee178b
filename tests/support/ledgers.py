"""Random changes to a ledger, and checks of what must always hold for it."""

import random
import tempfile
from pathlib import Path

from pipelines.core.errors import InputError
from pipelines.tracking import ledger, mlmodel, store

VERSIONS = (1, 2, 3, 4)


def register_versions() -> None:
    """Register four versions of `m`, without files of a model, and without a champion."""
    store.connect().create_registered_model("m")
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, mlmodel.NAME).write_text("flavors: {python_function: {artifacts: {}}}")
        for _ in VERSIONS:
            upload("m", Path(folder))


def upload(name: str, folder: Path) -> int:
    """Register any files as the next version of a model, with MLflow's own client."""
    client = store.connect()
    run = client.create_run(store.experiment(client))
    client.log_artifacts(run.info.run_id, str(folder), "model")
    place = f"{run.info.artifact_uri}/model"
    return int(client.create_model_version(name, place, run.info.run_id, await_creation_for=0).version)


def other(draw: random.Random, champion: int | None) -> int:
    """Choose a version that is not the champion."""
    return draw.choice([number for number in VERSIONS if number != champion])


def change(draw: random.Random) -> bool:
    """Promote a random version, or roll back; returns whether the event counts."""
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
    """The version with MLflow's alias champion."""
    held = store.connect().get_registered_model("m").aliases.get("champion")
    return int(held) if held else None


def require_order(entries: int | None = None, settled: bool = True) -> ledger.State:
    """Check that the ledger is complete and that the alias follows it; returns its state.

    Args:
        settled: whether the alias must be right. False after a kill, since the next command sets it.
    """
    state = ledger.read("m")
    assert not state.damage
    assert entries is None or len(state.entries) == entries
    numbers = sorted(entry.number for entry in (*state.entries, *state.overtaken, *state.repeated, *state.notes))
    assert numbers == list(range(1, len(numbers) + 1))
    champion = None
    for entry in state.entries:
        assert entry.event.previous == champion
        champion = entry.event.version
    if settled:
        assert alias() == state.champion
    return state
