"""`bertline score` killed at random moments, with two jobs for one target: the target is never a wrong file."""

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

import mlflow
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.tracking import ledger, registry
from tests.support import forked, stores, tiny
from tests.support.forked import Forked
from tests.support.places import CODE, ROOT

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("BERTLINE_KILLS", "3"))  # in soak tests
ROWS = 2_000
JOBS = {"a": "映画の公開日が決定", "b": "試合は延長の末に決着した"}


@pytest.fixture
def place(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stores.place_in(checkout)
    example = {"text": "犬"}
    version = registry.register("tiny", tiny.classifier(checkout / "model"), CODE, "single", example, {"run": "t"})
    ledger.append("tiny", ledger.read("tiny"), "promote", version.version, "a test")
    for job, text in JOBS.items():
        pq.write_table(pa.table({"id": range(ROWS), "text": [text] * ROWS}), checkout / f"{job}.parquet")
    yield checkout
    mlflow.set_tracking_uri(None)


def start(job: str) -> AbstractContextManager[Forked]:
    return forked.started("flows.cli", "score", "tiny", f"{job}.parquet", "out.parquet", leads=True)


def ends_well(job: str) -> None:
    with start(job) as process:
        assert (process.wait(), process.said()) == (0, "")


def is_whole(target: Path) -> bool:
    """Return whether the target exists; assert that it is complete, and all its rows are of the job that it names."""
    if not target.exists():
        return False
    source = json.loads((pq.read_metadata(target).metadata or {})[b"bertline.score"])["source"]
    scored = pq.read_table(target)
    assert scored.column("id").to_pylist() == list(range(ROWS))
    assert set(scored.column("text").to_pylist()) == {JOBS[Path(source).stem]}
    assert scored.column("label").null_count == 0
    return True


@pytest.mark.parametrize("kills", [1, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_two_scoring_jobs_killed_at_random_leave_a_whole_file(place: Path, kills: int) -> None:
    target, rng = place / "out.parquet", random.Random(1)
    for _ in range(2):  # the first one waits for the imports of all
        target.unlink(missing_ok=True)
        began = time.monotonic()
        ends_well("a")
        took = time.monotonic() - began
    assert is_whole(target)
    for _ in range(kills):
        target.unlink(missing_ok=True)
        with start("a") as first, start("b") as second:
            moments = sorted(rng.uniform(0.5, 1.3) * took for _ in range(2))
            last = 0.0
            for moment, job in zip(moments, rng.sample([first, second], 2), strict=True):
                time.sleep(moment - last)
                last = moment
                if job.poll() is None:
                    job.kill_all()
                is_whole(target)
            for job in (first, second):
                status, output = job.wait(), job.said()
                refused = "another process is writing it" in output or "exists, and is not from scoring" in output
                assert status in (0, -signal.SIGKILL) or refused
    target.unlink(missing_ok=True)
    ends_well("b")
    assert is_whole(target)
    assert [file.name for file in place.glob(".out*")] == []
