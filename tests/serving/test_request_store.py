"""Stored requests: every kind and protocol, no text unless it is chosen, never in the way; and their replay."""

import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from flows.local import http_service
from pipelines.core.errors import UsageError
from pipelines.core.schema import INPUTS
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import request_replay
from pipelines.serving import request_store
from pipelines.serving.disagreements import Disagreements, differs, digest
from pipelines.serving.request_store import RequestStore
from pipelines.serving.row_files import STALE_SECONDS, TIME, RowFiles
from pipelines.serving.served_model import Answered
from pipelines.tracking.registry import Version
from tests.support import disks, kinds, raw_http, served, servers, tiny

JSON = {"Content-Type": "application/json"}
BODIES: dict[str, dict[str, Any]] = {  # a request of each protocol for the same row
    "/predict/tiny": {"rows": [{"text": "犬"}]},
    "/hf/tiny": {"inputs": "犬"},
    "/invocations/tiny": {"dataframe_records": [{"text": "犬"}]},
    "/v2/models/tiny/infer": {"inputs": [{"name": "text", "shape": [1], "datatype": "BYTES", "data": ["犬"]}]},
}


def stored(folder: Path) -> list[dict[str, Any]]:
    return [row for file in sorted(folder.glob("*.parquet")) for row in pq.read_table(file).to_pylist()]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Predictor, Predictor]]:
    """For each kind a model, and another with other weights."""
    place = tmp_path_factory.mktemp("models")
    return {
        kind: (
            Predictor.load(tiny.classifier(place / f"{kind}1", kind, seed=1)),
            Predictor.load(tiny.classifier(place / f"{kind}2", kind, seed=2)),
        )
        for kind in kinds.TASKS
    }


def request_rows(kind: str) -> list[dict[str, Any]]:
    return kinds.rows(kind).select(INPUTS[kind]).to_pylist()


@pytest.mark.parametrize("kind", kinds.TASKS)
def test_rows_of_every_kind_are_stored_and_replayed(
    kind: str, models: dict[str, tuple[Predictor, Predictor]], tmp_path: Path
) -> None:
    first, second = models[kind]
    rows, version = request_rows(kind), Version("m", 3, {})
    model: Any = SimpleNamespace(version=version, digest="d" * 64, task=first.task)
    columns = {name: [row[name] for row in rows] for name in INPUTS[kind]}
    answers = [
        first.predict(kinds.rows(kind).select(INPUTS[kind])),
        second.predict(kinds.rows(kind).select(INPUTS[kind])),
    ]
    theirs, ours = (answer.to_pylist() for answer in answers)
    for texts in (False, True):
        store = RequestStore(tmp_path / str(texts), days=7, texts=texts)
        store.add(columns, Answered(model, theirs, []))
        store.add(columns, Answered(model, theirs, []))
        store.close()
        assert store.rows == {"stored": 2 * len(rows)}
        listed = stored(tmp_path / str(texts))
        assert [row["digest"] for row in listed] == [digest(row) for row in rows] * 2
        assert {(row["model"], row["version"], row["version_digest"]) for row in listed} == {("m", 3, "d" * 64)}
        assert {row["kind"] for row in listed} == {kind}
        assert all((row["row"] is not None) == texts for row in listed)
        assert all(json.loads(row["answer"]).keys() <= theirs[0].keys() for row in listed)
    assert not any("映画" in json.dumps(row, default=str, ensure_ascii=False) for row in stored(tmp_path / "False"))

    blind = request_replay.read(tmp_path / "False", "m", kind, 7)
    nothing = request_replay.compared(first, second, blind, 7, 0.1)
    assert (nothing.answers, blind.without_text) == (0, 2 * len(rows))
    assert "no request of the last 7 days can be replayed" in nothing.sentence
    assert f"{2 * len(rows)} cannot be replayed, as they were stored without their texts" in nothing.sentence
    requests = request_replay.read(tmp_path / "True", "m", kind, 7)
    same = request_replay.compared(first, first, requests, 7, 0.0)
    assert (same.answers, same.changed) == (2 * len(rows), 0)
    replay = request_replay.compared(first, second, requests, 7, 0.1)
    expected = 2 * sum(differs(kind, *pair, 0.1) for pair in zip(theirs, ours, strict=True))
    assert (replay.answers, replay.changed) == (2 * len(rows), expected)
    assert replay.changed > 0, "other weights answer otherwise"
    low, high = replay.interval
    assert low < replay.share <= high
    assert replay.effective <= len(rows), "a row that was sent twice is not two rows"
    assert request_replay.read(tmp_path / "True", "other", kind, 7).rows == {}


def test_requests_of_every_protocol_are_stored_once_as_they_were_answered(
    models: dict[str, tuple[Predictor, Predictor]], tmp_path: Path
) -> None:
    catalogue = served.of_predictors({Version("tiny", 1, {}): models["single"][0]})
    catalogue.store = RequestStore(tmp_path / "requests", days=1, texts=True)
    with served.serving(catalogue) as address:
        for path, body in BODIES.items():
            assert raw_http.post(address, path, json.dumps(body).encode(), JSON).status == 200
        refused = raw_http.post(address, "/predict/tiny", b'{"rows": [{"text": 1}]}', JSON)
        assert refused.status == 422
        answer = raw_http.post(address, "/predict/tiny", json.dumps(BODIES["/predict/tiny"]).encode(), JSON).json()
        assert 'bertline_stored_rows_total{result="lost"} 0.0' in raw_http.get(address, "/metrics").body.decode()
    listed = stored(tmp_path / "requests")
    assert [json.loads(row["row"]) for row in listed] == [{"text": "犬"}] * (len(BODIES) + 1)
    assert len({row["answer"] for row in listed}) == 1
    saved = json.loads(listed[0]["answer"])
    assert saved["label"] == answer["predictions"][0]["label"]
    assert oct((tmp_path / "requests").stat().st_mode & 0o777) == "0o700"


def ask_until(address: str, store: RequestStore, result: str, count: int) -> None:
    """Send a request, which is answered, and wait until the store counts so many rows of a result."""
    assert raw_http.post(address, "/predict/tiny", b'{"rows": [{"text": "a"}]}', JSON).status == 200
    store._due.set()
    servers.wait_until(lambda: store.rows[result] == count, f"{result} {count}: {store.rows}", 30)


def test_a_folder_that_cannot_be_written_fails_no_request_and_says_so_once(
    models: dict[str, tuple[Predictor, Predictor]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    (tmp_path / "full").write_text("")  # no folder can be made here, whoever asks
    catalogue = served.of_predictors({Version("tiny", 1, {}): models["single"][0]})
    store = catalogue.store = RequestStore(tmp_path / "full" / "requests", days=1)
    with served.serving(catalogue) as address:
        for count in (1, 2, 3):
            ask_until(address, store, "lost", count)
        assert 'bertline_stored_rows_total{result="lost"} 3.0' in raw_http.get(address, "/metrics").body.decode()
    assert capfd.readouterr().err.count("requests are not stored") == 1


def test_a_full_disk_fails_no_request_and_is_used_again_once_it_has_room(
    models: dict[str, tuple[Predictor, Predictor]],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    catalogue = served.of_predictors({Version("tiny", 1, {}): models["single"][0]})
    with disks.small(tmp_path / "disk", 1 << 16) as disk:
        store = catalogue.store = RequestStore(disk / "requests", days=1)
        (disk / "filler").write_bytes(bytes(1 << 16))
        with served.serving(catalogue) as address:
            for result, count in (("lost", 1), ("lost", 2), ("stored", 1)):
                if result == "stored":
                    (disk / "filler").unlink()
                ask_until(address, store, result, count)
        assert [file.suffix for file in (disk / "requests").iterdir()] == [".parquet"], "no part of a file stays"
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "requests are not stored" in line]
    assert "No space left on device" in line


def test_rows_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(request_store, "MOST_WAITING", 3)
    store = RequestStore(tmp_path, days=1)
    with store._lock:  # the writer waits
        store._count = 2
    store.add({"text": ["a", "b"]}, Answered(SimpleNamespace(), [{}, {}], []))  # type: ignore[arg-type]
    store.close()
    assert store.rows == {"lost": 2}


def test_another_user_reads_no_row_wherever_the_folder_is(tmp_path: Path) -> None:
    """A folder that a person has made is open to others."""
    tmp_path.chmod(0o755)
    RowFiles(tmp_path, pa.schema({"text": pa.string()}), most_files=10).write([{"text": "犬"}])
    assert [file.stat().st_mode & 0o777 for file in tmp_path.iterdir()] == [0o600]
    assert stored(tmp_path) == [{"text": "犬"}]


def test_old_files_and_those_beyond_the_bounds_are_deleted(tmp_path: Path) -> None:
    now = datetime.now(UTC)
    names = [f"{now - timedelta(days=days):{TIME}}-{days}.parquet" for days in (5, 3, 2, 1)]
    for name in names:
        (tmp_path / name).write_bytes(b"x" * 100)
    half, fresh = tmp_path / ".a.parquet.1", tmp_path / ".b.parquet.2"
    for partial, age in ((half, STALE_SECONDS + 60), (fresh, 0)):
        partial.write_bytes(b"x")
        os.utime(partial, (time.time() - age,) * 2)
    RowFiles(tmp_path, request_store.SCHEMA, most_files=10, days=4).prune()
    assert sorted(file.name for file in tmp_path.glob("*.parquet")) == names[1:]
    assert (half.exists(), fresh.exists()) == (False, True)
    RowFiles(tmp_path, request_store.SCHEMA, most_files=10, most_bytes=250).prune()
    assert sorted(file.name for file in tmp_path.glob("*.parquet")) == names[2:]
    RowFiles(tmp_path, request_store.SCHEMA, most_files=1).prune()
    assert sorted(file.name for file in tmp_path.glob("*.parquet")) == names[3:]


def test_files_that_cannot_be_looked_at_end_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lines: list[str] = []
    monkeypatch.setattr(request_store, "say", lines.append)
    store = RequestStore(tmp_path, days=10**6)  # before the first year of the calendar
    (tmp_path / "20990101T000000-a.parquet").write_bytes(b"PAR1")
    store._prune()
    store.close()
    assert "old requests are not deleted" in lines[0]


def test_a_damaged_file_is_left_out_of_a_replay_and_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    (tmp_path / "20990101T000000-a.parquet").write_bytes(b"PAR1")
    assert request_replay.read(tmp_path, "m", "single", 7).rows == {}
    assert "20990101T000000-a.parquet: left out" in capfd.readouterr().err


def test_replicas_refuse_what_they_do_not_do_in_one_sentence(tmp_path: Path) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"request_days": 7}, "--keep-requests: replicas in Ray Serve store no requests; leave it out"),
        ({"disagreements": Disagreements(tmp_path)}, "--disagreements: replicas in Ray Serve only count them; leave"),
    ]
    for settings, sentence in refused:
        with pytest.raises(UsageError, match=sentence):
            http_service.serving_in_ray({}, http_service.Settings(**settings)).__enter__()


def test_options_that_do_nothing_are_refused() -> None:
    with pytest.raises(UsageError, match="--keep-texts: say for how many days with --keep-requests"):
        http_service.stored_days(None, texts=True)
    assert [http_service.stored_days(days, texts=False) for days in (None, 7)] == [0, 7]


def test_questions_that_both_leave_without_an_answer_agree() -> None:
    none, other = ({"answer": "", "start": start, "best": best} for start, best in ((3, "a"), (9, "b")))
    assert not differs("span", none, other, 0.1)
    assert differs("span", none, {"answer": "a", "start": 3}, 0.1)
    assert differs("span", {"answer": "a", "start": 3}, {"answer": "a", "start": 9}, 0.1)
