"""What a run keeps for the next one, fuzzed as `kinds` has the other inputs: scored files, and caches."""

import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flows import prefect_events
from flows.local import prefect_settings
from pipelines.compression import teacher_outputs
from pipelines.evaluation import drift
from pipelines.graph import dvc_steps, executor
from pipelines.lifecycle import window_drift
from pipelines.measurement import drift_profile
from pipelines.tracking import ledger_cache
from tests.fuzz import files, mutate, seeds

Run = Callable[[], object]
LIMITS = dict.fromkeys(drift.STATISTICS, 0.1)


def scored(rng: random.Random) -> Run:
    """A scored file, as `bertline watch` measures it."""
    kind = rng.choice(list(seeds.KINDS))
    whole = seeds.scored(kind)
    file = Path("scored.parquet")
    pq.write_table(_odd(whole, rng) if rng.random() < 0.5 else whole, file)
    if rng.random() < 0.6:
        file.write_bytes(files.parquet(file.read_bytes(), rng))

    def read() -> None:
        if window_drift.scored_by_version(file, "said_"):
            profile = drift_profile.of_scored(file, Path("seeds") / kind / "model", "said_")
            drift.shifts(seeds.profile(kind), profile, LIMITS)

    return read


def _odd(table: pa.Table, rng: random.Random) -> pa.Table:
    """A column in another form, of another type, or with some other values; or no rows."""
    at = rng.randrange(table.num_columns)
    name, column = table.column_names[at], table.column(at)
    values: list[Any] = column.to_pylist()
    odd = rng.choice((None, float("nan"), float("inf"), "", "x", 0, -1, 2**40, [], ["x"], {"a": 1}, b"\xff", True))
    ways: tuple[Callable[[], Any], ...] = (
        lambda: column.dictionary_encode(),
        lambda: pa.array([*values[:5], odd, *values[6:]]),
        lambda: pa.array([odd] * len(values)),
        lambda: pa.array([[value] for value in values]),
        lambda: pa.array([{"x": value} for value in values]),
        lambda: column.cast(rng.choice((pa.large_string(), pa.string_view(), pa.float32(), pa.int32()))),
        lambda: pa.nulls(len(values), column.type),
    )
    try:
        changed = rng.choice(ways)()
    except (pa.ArrowException, TypeError, OverflowError, ValueError):  # Arrow has no such column
        return table.slice(0, rng.choice((0, 1, 2)))
    return table.set_column(at, name, changed) if CHANGES else table


CHANGES = True  # whether `_odd` changes anything


def _told() -> Any:
    with prefect_events._told() as events:
        return dict(events)


DONE, STATES = Path("kept/done.json"), Path("kept/states")
KEPT = Path("kept/window.parquet")


def _outputs() -> Any:
    expected = {"states": teacher_outputs.Array((2, 3), "float32", True, str(STATES))}
    return teacher_outputs._whole(DONE, {"states": [2, 3, "float32"]}, expected)


def _locks() -> Any:
    dvc_steps._remove_stale_locks(Path("kept/rwlock"))
    return True


_LINE = {"window": "w", "model_version": 1, "rows": 1, "statistic": "length", "value": 0.1, "by_chance": 0.1}
# file -> what it holds, and what reads it
CACHES: dict[Path, tuple[Any, Callable[[], Any]]] = {
    prefect_events.TOLD: ({"drift it": "2026-11-01"}, _told),
    executor.SECONDS_FILE: ({"finetune@it": 3.5}, lambda: executor.seconds()),
    prefect_settings.PIDS / "prefect": ({"pid": 2**22 - 1, "began": 5}, lambda: prefect_settings.running("prefect")),
    Path("kept/rwlock"): ({"read": {"a": [{"pid": 2**22 - 1, "cmd": "x"}]}, "write": {}}, _locks),
    Path("kept/ledger.json"): (
        [[1, 2, "{}"], [2, 3, "{}"]],
        lambda: [*map(tuple, ledger_cache.events(Path("kept/ledger.json")))],
    ),
    DONE: ({"states": [2, 3, "float32"]}, _outputs),
    KEPT: (None, lambda: window_drift.kept_lines(KEPT, STATES)),
}


def cache(rng: random.Random) -> Run:
    """A file that is made anew when it is lost: a damaged one is no error, and says nothing or what it said."""
    file = rng.choice(list(CACHES))
    content, read = CACHES[file]
    for path in (file, STATES, DONE):
        files.removed(path)
        path.parent.mkdir(parents=True, exist_ok=True)
    STATES.write_bytes(b"\0" * 24)
    if file == KEPT:
        schema = window_drift.SCHEMA.with_metadata({window_drift.OF: window_drift._state(STATES)})
        pq.write_table(pa.Table.from_pylist([_LINE | {"limit": 0.5, "drifted": False}], schema), file)
        expected: Any = [_LINE | {"limit": 0.5, "drifted": False}]
        file.write_bytes(files.parquet(file.read_bytes(), rng))
    else:
        file.write_text(json.dumps(content))
        expected = read()
        file.write_text(json.dumps(content))
        _damage(file, content, rng)

    def again() -> object:
        try:
            return None if read() == expected else seeds.CHANGED
        except Exception as error:
            raise AssertionError(f"{file}: {error}") from error

    return again


def _damage(file: Path, content: Any, rng: random.Random) -> None:
    if rng.random() < 0.1 and CHANGES:
        file.unlink()
        file.mkdir()
        (file / "x").write_text("x")
    elif rng.random() < 0.5:
        file.write_bytes(mutate.as_json(mutate.changed(content, rng), rng))
    else:
        file.write_bytes(mutate.damaged(file.read_bytes(), rng))
