"""If the clock of MLflow's store is set back between promotions, event numbers keep the order, and nothing is lost."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import mlflow
import pytest

from pipelines.lifecycle import history
from pipelines.tracking import ledger, ledger_cache
from tests.support import ledgers, stores

pytestmark = pytest.mark.slow


@pytest.fixture
def database(checkout: Path) -> Iterator[Path]:
    file = stores.place_in(checkout)
    ledgers.register_versions()
    yield file
    mlflow.set_tracking_uri(None)


def promote_at(clock: str, version: int, database: Path) -> None:
    """Promote, then set the time of the event in MLflow's database to `clock`, before this checkout has read it."""
    state = ledger.append("m", ledger.read("m"), "promote", version, "a test")
    at_ms = datetime.fromisoformat(f"2026-01-01T{clock}").replace(tzinfo=UTC).timestamp() * 1000
    with closing(sqlite3.connect(database)) as connection, connection:
        changed = connection.execute(
            "UPDATE model_versions SET creation_time = ? WHERE name = 'm.ledger' AND version = ?",
            (int(at_ms), state.last[0]),
        )
        assert changed.rowcount == 1
    shutil.rmtree(ledger_cache.FOLDER)


def version_at(clock: str) -> str:
    sentence = history.plain_at(history.champion_at("m", f"2026-01-01T{clock}"))
    return "none" if "had no champion" in sentence else sentence.removeprefix("m version ")[0]


def test_a_clock_set_back_does_not_change_the_history(database: Path) -> None:
    for clock, version in (("10:00", 1), ("09:00", 2), ("09:30", 3)):
        promote_at(clock, version, database)
    events_of = history.history("m")
    assert [(row["number"], row["version"], row["previous"]) for row in events_of["events"]] == [
        (1, 1, None),
        (2, 2, 1),
        (3, 3, 2),
    ]
    assert [row["at"][11:16] for row in events_of["events"]] == [
        "10:00"
    ] * 3  # no entry is earlier than the one before it
    assert (events_of["champion"], events_of["overtaken"], events_of["damage"]) == (3, [], [])
    assert [version_at(clock) for clock in ("09:30", "09:59", "10:00", "11:00")] == ["none", "none", "3", "3"]

    promote_at("11:30", 4, database)
    assert [version_at(clock) for clock in ("11:00", "11:30")] == ["3", "4"]
    ledger.append("m", ledger.read("m"), "rollback", 3, "a test")
    assert ledger.champion("m") == ledgers.require_order(5).champion == 3
