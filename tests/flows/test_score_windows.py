"""Scoring window by window, the backfill, and the watch for drift, on MLflow's own SQLite."""

import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from subprocess import PIPE

import mlflow
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.score_windows import backfill, score_windows
from flows.watch import watch
from pipelines.core import paths, provenance, tables
from pipelines.core.errors import InputError, UsageError
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import window_drift
from pipelines.measurement import drift_profile
from pipelines.scoring import batch_scoring
from pipelines.tracking import ledger, registry
from tests.support import tiny
from tests.support.days import last_five
from tests.support.places import CODE, ROOT

pytestmark = pytest.mark.slow
USUAL = [
    f"{text}{more}" for text in tiny.TEXTS[:4] for more in ("", "犬", "映画", "試合", "予約", "監督", "延長", "語る")
]
OTHER = [f"blorptzang {i} wuggle" for i in range(32)]


def days() -> list[str]:
    return last_five(lasting_seconds=300)


@pytest.fixture
def champion(checkout: Path) -> Iterator[registry.Version]:
    """A champion that was registered with its profile, and a scoring job that begins five days ago."""
    write_params("all")
    folder = tiny.classifier(checkout / "model")
    usual = pa.table({"text": USUAL})
    predictor = Predictor.load(folder)
    profile = drift_profile.observed(usual, predictor.predict(usual), predictor.tokenizer, "single")
    pq.write_table(profile, "profile.parquet")
    tags = {"md5": "0" * 32}
    version = registry.register(
        "tiny", folder, CODE, "single", {"text": "犬"}, tags, profile=checkout / "profile.parquet"
    )
    ledger.append("tiny", ledger.read("tiny"), "promote", version.version, "a test")
    yield version
    mlflow.set_tracking_uri(None)


def write_params(policy: str) -> None:
    Path("params.yaml").write_text(
        "finetune: {tiny: {data: rows, encoder: e}}\nencode: {rows: {task: rows, vocab: v, max_length: 16}}\n"
        "prepare: {rows: {corpus: custom, source: x}}\npromote: {tiny: {run: tiny}}\nwatch: {daily: {}}\n"
        "score: {daily: {model: tiny, source: 'in/{window}.parquet', target: 'out/{window}.parquet', "
        f"since: '{days()[0]}', catch_up: {policy}}}}}\n"
    )


def arrive(day: str, texts: list[str] = USUAL) -> None:
    rows = pa.table({"text": texts})
    tables.write(Path(f"in/{day}.parquet"), rows.to_batches(), rows.schema)


def scored() -> list[str]:
    return sorted(file.stem for file in Path("out").glob("*.parquet"))


@pytest.mark.usefixtures("champion")
def test_a_due_window_is_scored_once() -> None:
    for day in (days()[1], days()[4]):
        arrive(day)
    lines = score_windows("daily")
    assert lines == [
        f"{days()[0]}: no file in/{days()[0]}.parquet",
        f"{days()[1]}: 32 rows into out/{days()[1]}.parquet",
        f"{days()[2]}: no file in/{days()[2]}.parquet",
        f"{days()[3]}: no file in/{days()[3]}.parquet",
        f"{days()[4]}: 32 rows into out/{days()[4]}.parquet",
    ]
    first = Path(f"out/{days()[4]}.parquet").stat().st_mtime_ns
    arrive(days()[4], OTHER)  # whoever rewrites the past must remove the scores too
    assert score_windows("daily")[-2:] == [
        f"{days()[3]}: no file in/{days()[3]}.parquet",
        "scored before: 2 of 5 windows",
    ]
    assert Path(f"out/{days()[4]}.parquet").stat().st_mtime_ns == first


@pytest.mark.usefixtures("champion")
def test_a_target_that_another_job_wrote_is_not_taken_for_scored() -> None:
    arrive(days()[4])
    score_windows("daily")
    Path("moved").mkdir()
    shutil.move("in", "moved/in")
    shutil.copytree("out", "moved/out")
    shutil.copy("params.yaml", "moved")
    with contextlib.chdir("moved"):
        assert backfill("daily", days()[4], days()[4]) == ["scored before: 1 of 1 windows"], "a checkout that was moved"
    text = Path("params.yaml").read_text()
    for was, now in (("in/{window}", "incoming/{window}"), ("since:", "prefix: p_, since:")):
        Path("params.yaml").write_text(text.replace(was, now))
        with pytest.raises(InputError, match=rf"{days()[4]}: out/.*: exists, and is not from scoring .* by tiny"):
            score_windows("daily")
    Path("params.yaml").write_text(text)
    tables.write(
        Path(f"out/{days()[3]}.parquet"), pa.table({"text": USUAL}).to_batches(), pa.schema({"text": "string"})
    )
    with pytest.raises(InputError, match=rf"{days()[3]}: out/.*: exists, .*; scored before: 1 of 5 windows"):
        score_windows("daily")


@pytest.mark.usefixtures("champion")
def test_the_policy_latest_scores_the_newest_window_and_a_backfill_the_rest() -> None:
    write_params("latest")
    for day in days():
        arrive(day)
    score_windows("daily")
    assert scored() == days()[4:]
    assert backfill("daily", days()[1], days()[4]) == [
        *(f"{day}: 32 rows into out/{day}.parquet" for day in days()[1:4]),
        "scored before: 1 of 4 windows",
    ]
    assert scored() == days()[1:]
    with pytest.raises(UsageError, match=r"--to \d.* is not over; it ends on .* UTC"):
        backfill("daily", days()[1], datetime.now(UTC).strftime("%Y-%m-%d"))
    with pytest.raises(UsageError, match="is after --to"):
        backfill("daily", days()[1], days()[0])


@pytest.mark.usefixtures("champion")
def test_a_failed_window_does_not_stop_the_others() -> None:
    for day in days():
        arrive(day)
    Path(f"in/{days()[2]}.parquet").write_bytes(b"no Parquet")
    with pytest.raises(
        InputError, match=rf"daily: 1 of 5 windows are not scored: {days()[2]}: in/{days()[2]}.parquet: not"
    ):
        score_windows("daily")
    assert scored() == [*days()[:2], *days()[3:]]
    os.remove(f"in/{days()[4]}.parquet")
    os.remove(f"out/{days()[4]}.parquet")
    with pytest.raises(InputError, match=rf"{days()[4]}: in/{days()[4]}.parquet: no such file"):
        score_windows("daily")


@pytest.mark.usefixtures("champion")
def test_a_backfill_counts_failed_missing_and_scored_windows() -> None:
    for day in (days()[0], days()[2]):
        arrive(day)
    Path(f"in/{days()[3]}.parquet").write_bytes(b"no Parquet")
    with pytest.raises(InputError) as raised:
        backfill("daily", days()[0], days()[4])
    message = str(raised.value)
    assert message.startswith(f"daily: 3 of 5 windows are not scored: {days()[3]}: in/{days()[3]}.parquet: not")
    assert all(f"; {day}: no file in/{day}.parquet" in message for day in (days()[1], days()[4]))
    assert message.endswith("".join(f"; {day}: 32 rows into out/{day}.parquet" for day in (days()[0], days()[2])))


@pytest.mark.timeout(120)
@pytest.mark.usefixtures("champion")
def test_a_named_pipe_as_target_is_refused_without_waiting() -> None:
    for day in days():
        arrive(day)
    Path("out").mkdir()
    os.mkfifo(f"out/{days()[1]}.parquet")
    with pytest.raises(InputError, match=rf"1 of 5 windows are not scored: {days()[1]}: out/.*: exists, and is not"):
        score_windows("daily")
    assert scored() == days()


@pytest.mark.usefixtures("champion")
def test_a_job_runs_once_at_a_time() -> None:
    for day in days():
        arrive(day)
    with another_process_has("daily"), pytest.raises(InputError, match="it is already running"):
        backfill("daily", days()[0], days()[4])
    assert not Path("out").exists()


@contextmanager
def another_process_has(job: str) -> Iterator[None]:
    """The kernel's locks are of processes."""
    code = (
        "import sys; from pipelines.core import locks\n"
        f"with locks.claim_entry('score', {job!r}): print('held', flush=True); sys.stdin.read()"
    )
    path = os.environ | {"PYTHONPATH": str(ROOT)}
    with subprocess.Popen([sys.executable, "-c", code], stdin=PIPE, stdout=PIPE, env=path) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"held\n"
        yield
        other.communicate()


@pytest.mark.usefixtures("champion")
def test_drift_is_an_alarm_at_the_second_of_three_windows() -> None:
    for day, texts in zip(days(), (USUAL, USUAL, USUAL, OTHER, OTHER), strict=True):
        arrive(day, texts)
    assert window_drift.plain(watch("daily")) == "daily: no window is scored yet"
    score_windows("daily")
    os.rename(f"out/{days()[4]}.parquet", "later.parquet")
    before = watch("daily")
    assert not before.alarm
    assert [before.drifted(day) for day in days()[:3]] == [[]] * 3
    assert {"vocabulary", "unknown_words"} <= set(before.drifted(days()[3]))
    os.rename("later.parquet", f"out/{days()[4]}.parquet")
    measurement = paths.drift("daily") / f"{days()[0]}.parquet"
    measured = measurement.stat().st_mtime_ns
    result = watch("daily")
    assert result.alarm
    assert measurement.stat().st_mtime_ns == measured, "a window is measured once"
    assert tables.read(measurement).column("drifted").to_pylist() == [False] * 6
    last = window_drift.plain(result).splitlines()
    assert "32 rows  no drift" in last[0]
    assert last[-2:] == ["drift, by the rule 2 of the last 3 windows, the newest among them", f"picture: {result.page}"]
    page = result.page.read_text()
    assert page.count("<svg") == 1
    assert "vocabulary" in page


@pytest.mark.usefixtures("champion")
def test_a_window_scored_again_is_measured_again() -> None:
    for day in days():
        arrive(day)
    score_windows("daily")
    assert watch("daily").drifted(days()[4]) == []
    target = Path(f"out/{days()[4]}.parquet")
    was = target.stat()
    target.unlink()
    arrive(days()[4], OTHER)
    score_windows("daily")
    os.utime(target, ns=(was.st_atime_ns, was.st_mtime_ns - 10**12))  # the clock was set back in between
    assert "vocabulary" in watch("daily").drifted(days()[4])


def test_a_window_that_cannot_be_measured_does_not_hide_the_drift_of_others(
    champion: registry.Version, checkout: Path
) -> None:
    """One was scored by a version that was registered without a profile, another is damaged."""
    other = registry.register("tiny", checkout / "model", CODE, "single", {"text": "犬"}, {"md5": "1" * 32})
    for day, texts in zip(days(), (USUAL, USUAL, USUAL, OTHER, OTHER), strict=True):
        arrive(day, texts)
    score_windows("daily")
    digest = provenance.content_digest(registry.folder(champion))
    assert batch_scoring.model_digest(Path(f"out/{days()[1]}.parquet")) == digest
    os.remove(f"out/{days()[1]}.parquet")
    ledger.append("tiny", ledger.read("tiny"), "promote", other.version, "a test")
    score_windows("daily")
    Path(f"out/{days()[2]}.parquet").write_bytes(b"no Parquet")
    with pytest.raises(InputError) as raised:
        watch("daily")
    message = str(raised.value)
    assert message.startswith(f"daily: 2 windows are not measured: {days()[1]}: tiny version 2 has no profile ")
    assert "`bertline retrain` registers it with one" in message
    assert f"; {days()[2]}: out/{days()[2]}.parquet: not a readable Parquet file" in message
    assert message.endswith("; the others: drift, by the rule 2 of the last 3 windows, the newest among them")
    measured = sorted(file.stem for file in paths.drift("daily").glob("*.parquet"))
    assert measured == [days()[0], *days()[3:]]
    assert (paths.drift("daily") / "index.html").is_file()


@pytest.mark.usefixtures("champion")
def test_rows_without_a_version_are_reported() -> None:
    for day in days():
        arrive(day)
    score_windows("daily")
    wrong = {days()[0]: [None] * 32, days()[1]: ["one"] * 32, days()[2]: [True] * 32, days()[3]: [-1] * 32}
    for day, versions in wrong.items():
        target = Path(f"out/{day}.parquet")
        rows = pq.read_table(target)
        at = rows.column_names.index("model_version")
        pq.write_table(rows.set_column(at, "model_version", pa.array(versions)), target)
    with pytest.raises(InputError, match="daily: 4 windows are not measured") as caught:
        watch("daily")
    assert all(day in str(caught.value) for day in wrong)
    assert str(caught.value).count("not a version; score it again") == 4
    Path(f"out/{days()[4]}.parquet").unlink()
    for day in wrong:
        Path(f"out/{day}.parquet").unlink()
    assert "rows  no drift" not in window_drift.plain(watch("daily"))
