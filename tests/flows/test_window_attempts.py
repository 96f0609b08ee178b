"""The attempts of a scoring job: which windows, in which order, which again, and what is said of earlier ones."""

import json
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import flows.score_windows
from flows.score_windows import score_windows
from pipelines.core import params
from pipelines.core.errors import InputError
from pipelines.core.windows import CatchUp, Window, between, due
from pipelines.entries.score import Score
from pipelines.lifecycle import scored_windows
from pipelines.scoring import batch_scoring
from pipelines.tracking.store import StoreError
from tests.support.days import last_five

pytestmark = pytest.mark.slow


def days() -> list[str]:
    return last_five(lasting_seconds=300)


def write_params(policy: str) -> None:
    Path("params.yaml").write_text(
        "finetune: {tiny: {data: rows, encoder: e}}\nencode: {rows: {task: rows, vocab: v, max_length: 16}}\n"
        "prepare: {rows: {corpus: custom, source: x}}\npromote: {tiny: {run: tiny}}\n"
        "score: {daily: {model: tiny, source: 'in/{window}.parquet', target: 'out/{window}.parquet', "
        f"since: '{days()[0]}', catch_up: {policy}}}}}\n"
    )


@pytest.mark.usefixtures("checkout")
def test_every_attempt_of_a_run_scores_the_windows_of_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """An hour or a day may have ended in between."""
    write_params("latest")
    starts: list[tuple[datetime, datetime]] = []

    def recorded(first: Window, policy: CatchUp, scheduled: datetime, now: datetime) -> list[Window]:
        starts.append((scheduled, now))
        return due(first, policy, scheduled, now)

    monkeypatch.setattr("flows.score_windows.due", recorded)
    with pytest.raises(InputError, match="1 of 1 windows are not scored"):
        score_windows.with_options(retries=1, retry_delay_seconds=0)("daily")
    assert len(starts) == 2
    assert starts[0] == starts[1]
    assert (datetime.now(UTC) - starts[0][1]).total_seconds() < 300


@pytest.mark.usefixtures("checkout")
def test_the_newest_window_is_scored_first_and_only_what_may_pass_is_tried_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_params("all")
    attempts: list[str] = []
    errors = {days()[0]: InputError("a row"), days()[1]: PermissionError("out"), days()[2]: StoreError("no answer")}

    def score(source: Path, *_: object) -> int:
        attempts.append(source.stem)
        if source.stem in errors:
            raise errors[source.stem]
        return 1

    monkeypatch.setattr("pipelines.tracking.registry.get", lambda *_: None)
    monkeypatch.setattr("pipelines.scoring.batch_scoring.score", score)
    monkeypatch.setattr(flows.score_windows, "score_one", flows.score_windows.score_one.with_options(retries=1))
    Path("in").mkdir()
    for day in days():
        Path(f"in/{day}.parquet").touch()
    with pytest.raises(InputError, match="3 of 5 windows are not scored"):
        score_windows("daily")
    assert attempts == [*days()[:2:-1], days()[2], days()[2], days()[1], days()[1], days()[0]]


def test_a_message_counts_what_was_scored_before(checkout: Path) -> None:
    entry = params.parse(
        Score, {"model": "m", "source": "in/{window}", "target": "out/{window}", "since": "2026-01-01"}, "score.daily"
    )
    windows = between(scored_windows.first(entry), Window.named("2026-12-31", "day"))
    Path("out").mkdir()
    for window in windows[:-1]:
        job = batch_scoring.job_of(Path(window.path(entry.source)), "m", "")
        rows = pa.table({"text": ["a"]}).replace_schema_metadata({batch_scoring.JOB: json.dumps(job)})
        pq.write_table(rows, window.path(entry.target))

    def refuse(*_: object) -> int:
        raise InputError("a row")

    with pytest.raises(InputError) as caught:
        scored_windows.score("daily", entry, windows, 1, refuse)
    assert str(caught.value) == (
        "daily: 1 of 365 windows are not scored: 2026-12-31: a row; scored before: 364 of 365 windows"
    )
