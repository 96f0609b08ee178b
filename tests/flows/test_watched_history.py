"""The watch over a long history: what was measured is not measured again, and what cannot be is counted."""

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.core import paths, provenance, tables
from pipelines.core.errors import InputError
from pipelines.core.windows import Window, between
from pipelines.entries.score import Score
from pipelines.entries.watch import Watch
from pipelines.lifecycle import scored_windows, status, window_drift
from pipelines.reports import drift_page
from pipelines.scoring import batch_scoring
from pipelines.tracking import registry

RULES = Watch(least=1, of=1)


@pytest.fixture
def history(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Score, list[str]]:
    """A job of 120 days, all scored by version 1 and measured; and the names of its windows."""
    monkeypatch.setattr(registry, "versions", lambda name: [registry.Version(name, 1, {})])
    since = datetime.now(UTC).date() - timedelta(days=120)
    entry = Score(model="m", source="in/{window}.parquet", target="out/{window}.parquet", since=since)
    first = scored_windows.first(entry)
    windows = between(first, Window(first.begin + timedelta(days=119), "day"))
    for window in windows:
        write_scored(Path(window.path(entry.target)), 1)
    window_drift.watch("daily", entry, RULES, measure, print)
    return entry, [window.name for window in windows]


def write_scored(target: Path, version: int) -> None:
    rows = pa.table({"model_version": [version]})
    tables.write(target, rows.to_batches(), rows.schema)


def measure(file: Path, _entry: Score, rules: Watch, window: str, target: Path) -> window_drift.Lines:
    """A window with a vocabulary that lies at 0.11."""
    same: dict[str, Any] = {"window": window, "model_version": 1, "rows": 9, "by_chance": 0.02}
    lines: window_drift.Lines = [
        {**same, "statistic": name, "value": 0.11 if name == "vocabulary" else 0.0, "limit": limit}
        for name, limit in rules.limits().items()
    ]
    lines = [line | {"drifted": line["value"] > line["limit"]} for line in lines]
    of = {window_drift.OF: window_drift._state(target), window_drift.CONTENT: window_drift._content(target)}
    window_drift._keep(file, lines, of)
    return lines


def refuse(*_: object) -> window_drift.Lines:
    raise AssertionError("it was measured already")


def test_an_edited_limit_judges_the_numbers_that_are_there(history: tuple[Score, list[str]]) -> None:
    entry, names = history
    assert window_drift.watch("daily", entry, RULES, refuse, print).alarm
    watched = window_drift.watch("daily", entry, RULES.model_copy(update={"vocabulary": 0.12}), refuse, print)
    assert not watched.alarm
    assert len(watched.windows) == 120
    stored = tables.read(paths.drift("daily") / f"{names[0]}.parquet").to_pylist()
    assert [(line["limit"], line["drifted"]) for line in stored if line["statistic"] == "vocabulary"] == [(0.12, False)]


def test_the_status_judges_the_windows_that_watch_judges(history: tuple[Score, list[str]]) -> None:
    entry, names = history
    score = f"score: {{daily: {{model: m, source: {entry.source!r}, target: {entry.target!r}, since: '{names[0]}'}}}}\n"
    Path("params.yaml").write_text(score + "watch: {daily: {least: 1, of: 1}}\n")
    last = {"job": "daily", "window": names[-1], "windows": 120, "statistics": ["vocabulary"], "alarm": True}
    assert status.drifted() == [last]
    Path("params.yaml").write_text(score + "watch: {daily: {least: 1, of: 1, vocabulary: 0.12}}\n")
    assert status.drifted() == [last | {"statistics": [], "alarm": False}]
    Path("params.yaml").write_text(score.replace(names[0], names[-2]) + "watch: {daily: {least: 1, of: 1}}\n")
    Path(f"out/{names[-1]}.parquet").unlink()
    assert status.drifted() == [last | {"window": names[-2], "windows": 1}]
    write_scored(Path(f"out/{names[-2]}.parquet"), 3)
    nothing = {"window": None, "windows": 0, "statistics": [], "alarm": False}
    assert status.drifted() == [last | nothing], "its numbers are of another file"


def test_a_file_that_was_put_back_with_another_time_is_the_same(history: tuple[Score, list[str]]) -> None:
    entry, names = history
    target = Path(f"out/{names[0]}.parquet")
    os.utime(target, (0, 0))
    window_drift.watch("daily", entry, RULES, refuse, print)
    identity = window_drift._identity(paths.drift("daily") / f"{names[0]}.parquet")
    assert identity[window_drift.OF] == window_drift._state(target)


def test_windows_of_removed_versions_are_counted(history: tuple[Score, list[str]]) -> None:
    entry, names = history
    for name in names[:7]:
        write_scored(Path(f"out/{name}.parquet"), 2)
    watched = window_drift.watch("daily", entry, RULES, refuse, print)
    assert watched.removed == 7
    assert len(watched.windows) == 113
    lines = window_drift.plain(watched).splitlines()
    assert lines[0] == "not measured: 7 windows; the version that scored them was removed"
    assert lines[1] == f"13 earlier windows: {paths.drift('daily')}"
    assert len(lines) == 2 + drift_page.MOST + 2


def test_a_store_without_versions_of_the_model_is_no_removal(
    history: tuple[Score, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    entry, names = history
    write_scored(Path(f"out/{names[0]}.parquet"), 2)
    monkeypatch.setattr(registry, "versions", lambda name: [])

    def none(*_: object) -> window_drift.Lines:
        raise InputError("no model 'm' is registered")

    with pytest.raises(InputError, match=r"1 windows are not measured: .*no model 'm' is registered"):
        window_drift.watch("daily", entry, RULES, none, print)


def test_the_page_shows_the_last_windows(history: tuple[Score, list[str]]) -> None:
    _, names = history
    page = (paths.drift("daily") / "index.html").read_text()
    assert "The last 100 of 120 windows" in page
    assert f"<td>{names[20]}</td>" in page
    assert f"<td>{names[19]}</td>" not in page


def test_a_message_lists_the_first_failures_and_counts_the_others(history: tuple[Score, list[str]]) -> None:
    entry, names = history
    for name in names[:-1]:
        Path(f"out/{name}.parquet").write_bytes(b"no Parquet")
    with pytest.raises(InputError, match=r"daily: 119 windows are not measured: .*; and 114 more; the") as caught:
        window_drift.watch("daily", entry, RULES, refuse, print)
    assert len(str(caught.value)) < 1200


def test_a_number_that_names_other_files_now_is_no_origin(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A registry that began anew gives its numbers again."""
    Path("model").mkdir()
    Path("model/weights").write_text("these")
    monkeypatch.setattr(registry, "folder", lambda version: Path("model"))
    version, rows = registry.Version("m", 1, {}), pa.table({"model_version": [1]})
    for digest, target in ((provenance.content_digest(Path("model")), "same.parquet"), ("0" * 64, "other.parquet")):
        schema = rows.schema.with_metadata({batch_scoring.MODEL: digest.encode()})
        tables.write(Path(target), rows.cast(schema).to_batches(), schema)
    write_scored(Path("older.parquet"), 1)
    assert window_drift._folder(version, Path("same.parquet")) == Path("model")
    assert window_drift._folder(version, Path("older.parquet")) == Path("model")
    with pytest.raises(InputError, match=r"other.parquet: scored by another model than m version 1 has now"):
        window_drift._folder(version, Path("other.parquet"))
