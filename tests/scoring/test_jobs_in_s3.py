"""Scoring jobs in S3: the answers of a folder of this machine, each once, whatever S3 does, and one writer a job."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core import s3_objects
from pipelines.core.errors import InputError
from pipelines.core.s3_objects import Objects
from pipelines.inference import receipt_keys
from pipelines.scoring import (
    audit,
    job,
    job_list,
    manifest,
    replay,
    s3_folder,
    s3_lock,
    verification,
)
from pipelines.scoring.s3_folder import S3Folder
from tests.support import commands, faulty_s3, forked, tiny
from tests.support.faulty_s3 import Proxy
from tests.support.servers import BUCKET

pytestmark = pytest.mark.slow
IN = f"s3://{BUCKET}/in"
ALL = job.Options(max_bad="100%")


@pytest.fixture(scope="module")
def running() -> Iterator[Proxy]:
    with faulty_s3.running() as proxy:
        yield proxy


@pytest.fixture
def s3(running: Proxy, version: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Proxy]:
    """A bucket with the rows of `write_rows` and no other objects; the environment names it."""
    assert version
    monkeypatch.setattr(s3_lock, "LEASE_SECONDS", 2)
    with faulty_s3.emptied(running, monkeypatch) as proxy:
        yield proxy


def write_rows(folder: Path) -> None:
    """Four partitions with two bad rows, in all formats."""
    (folder / "day=1").mkdir(parents=True)
    pq.write_table(pa.table({"text": [*tiny.TEXTS, None], "n": range(17)}), folder / "day=1/a.parquet")
    pq.write_table(pa.table({"text": tiny.TEXTS}), folder / "b.parquet")
    (folder / "c.csv").write_bytes("text,x\n犬,1\nonly\n映画,2\n".encode())
    (folder / "d.jsonl").write_text("\n".join(json.dumps({"text": text}) for text in tiny.TEXTS))
    (folder / "_SUCCESS").touch()


def put_rows(proxy: Proxy, folder: Path, prefix: str = "in") -> None:
    write_rows(folder)
    for file in folder.rglob("*"):
        if file.is_file():
            put(proxy, f"{prefix}/{file.relative_to(folder).as_posix()}", file.read_bytes())


def put(proxy: Proxy, key: str, body: bytes) -> None:
    faulty_s3.client(proxy).put_object(Bucket=BUCKET, Key=key, Body=body)


def run(source: str | Path, target: str | Path, **more: Any) -> job.Outcome:
    return job.run(source, target, "tiny", "champion", ALL, **more)


def answers(proxy: Proxy, prefix: str) -> dict[str, bytes]:
    """The answers and bad rows below a prefix by name."""
    client = faulty_s3.client(proxy)
    names = (key.removeprefix(prefix) for key in Objects(BUCKET).listed(prefix))
    wanted = [name for name in names if name.endswith(".parquet") or name.startswith("_quarantine/")]
    return {name: client.get_object(Bucket=BUCKET, Key=prefix + name)["Body"].read() for name in wanted}


def test_the_files_root_and_audit_are_those_of_a_folder_of_this_machine(
    s3: Proxy, source: Path, target: Path, tmp_path: Path
) -> None:
    put_rows(s3, source)
    here = run(source, target)
    there = run(IN, f"s3://{BUCKET}/out")
    assert there.summary["root"] == here.summary["root"]
    files = [file for file in target.rglob("*") if file.suffix == ".parquet" or "_quarantine/" in str(file)]
    assert answers(s3, "out/") == {
        file.relative_to(target).as_posix(): file.read_bytes() for file in files if file.is_file()
    }
    assert there.sentence().endswith(f"into s3://{BUCKET}/out, 2 bad rows in s3://{BUCKET}/out/_quarantine")
    result = audit.audit(f"s3://{BUCKET}/out")
    assert (result.findings, result.inputs) == ([], 4)
    assert run(IN, f"s3://{BUCKET}/out/").scored_now == 0, "a finished job does nothing"
    assert run(IN, tmp_path / "here").summary["root"] == here.summary["root"]
    assert run(source, f"s3://{BUCKET}/from-here").summary["root"] == here.summary["root"]
    two = run(IN, f"s3://{BUCKET}/two", workers=2)
    assert two.summary["root"] == here.summary["root"]
    one = run(f"{IN}/d.jsonl", f"s3://{BUCKET}/one")
    assert (one.summary["rows"], audit.audit(f"s3://{BUCKET}/one").findings) == (16, [])


@pytest.mark.parametrize(
    ("seed", "share"), [(1, 0.15), *(pytest.param(seed, 0.3, marks=pytest.mark.soak) for seed in range(2, 40))]
)
def test_requests_that_fail_stall_end_early_or_lose_their_answer_lose_no_row(
    s3: Proxy, source: Path, monkeypatch: pytest.MonkeyPatch, seed: int, share: float
) -> None:
    """A job that ends with a sentence runs again; what is finished is not scored again."""
    monkeypatch.setattr(s3_objects, "READ_SECONDS", 1)
    put_rows(s3, source)
    s3.rng.seed(seed)
    s3.share, names, summary, sentences = share, list[str](), None, list[str]()
    for _ in range(20):
        try:
            summary = run(IN, f"s3://{BUCKET}/out", on_partition=lambda entry: names.append(entry["source"])).summary
            break
        except InputError as error:
            sentences.append(str(error))
    s3.share = 0.0
    assert all(f"s3://{BUCKET}/" in line for line in sentences)
    assert not [line for line in sentences if not line.endswith(("run it again", "this one ends"))]
    assert summary
    assert sum(s3.met.values()) >= 5
    assert sorted(names) == sorted(set(names)), "a finished partition is scored again"
    result = audit.audit(f"s3://{BUCKET}/out")
    assert (result.findings, result.summary["root"]) == ([], summary["root"])


@pytest.mark.parametrize("fault", ["fail", "short"])
def test_s3_that_never_answers_well_is_one_sentence(
    s3: Proxy, source: Path, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    put_rows(s3, source)
    assert run(IN, f"s3://{BUCKET}/out").scored_now == 4
    s3.share, s3.faults = 1.0, (fault,)
    with pytest.raises(InputError, match=rf"s3://{BUCKET}/.*: S3 (refuses it|does not answer) \(.*run it again"):
        audit.audit(f"s3://{BUCKET}/out")


def test_an_input_that_looks_whole_and_is_not_stops_the_job_before_it_begins(s3: Proxy) -> None:
    put(s3, "in/a.jsonl", b'{"text": "a"}\n' * 100)
    s3.share, s3.faults = 1.0, ("cut",)
    s3.only = "/in/a.jsonl"
    with pytest.raises(InputError, match=r"in/a.jsonl: .*(changed, or was cut|checksum)"):
        run(IN, f"s3://{BUCKET}/out")
    assert list(Objects(BUCKET).listed("out/")) == ["out/_lock"]


def test_a_killed_job_goes_on_and_reads_finished_input_for_its_digest_alone(s3: Proxy, source: Path) -> None:
    put_rows(s3, source)
    with forked.started("tests.support.run_job", IN, f"s3://{BUCKET}/out", leads=True) as process:
        process.until(lambda: Objects(BUCKET).listed("out/_manifest/"))
        process.kill_all()
    done = {
        json.loads((Objects(BUCKET).read(key) or (b"",))[0])["source"]
        for key in Objects(BUCKET).listed("out/_manifest/")
    }
    assert done
    assert [one.target for one in job_list.below(f"s3://{BUCKET}")] == [f"s3://{BUCKET}/out"]
    names = list[str]()
    s3.requests.clear()
    outcome = run(IN, f"s3://{BUCKET}/out", on_partition=lambda entry: names.append(entry["source"]))
    assert sorted({*names, *done}) == ["b.parquet", "c.csv", "d.jsonl", "day=1/a.parquet"]
    assert len(names) + len(done) == 4
    reads = [path for method, path in s3.requests if method == "GET" and f"/{BUCKET}/in/" in path]
    assert len(reads) == 4, "each input once: for its digest, or to be scored"
    result = audit.audit(f"s3://{BUCKET}/out")
    assert (result.findings, result.summary["root"]) == ([], outcome.summary["root"])


def test_one_writer_a_job_and_one_that_was_stopped_for_long_overwrites_nothing(
    s3: Proxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / name for name in ("a", "b", "file", "other")]
    first, second = (S3Folder.of(f"s3://{BUCKET}/out", place) for place in places[:2])
    for place in places[:2]:
        place.mkdir()
    with first.sole_writer():
        assert second.has_writer()
        with (
            pytest.raises(InputError, match="another process is writing it; wait until it ends, or stop it"),
            second.sole_writer(),
        ):
            pass
        monkeypatch.setattr(s3_lock.Lock, "_beat", lambda lock: None)
        places[2].write_text("first")
        first.publish(places[2], "x.parquet")
    assert not second.has_writer()
    places[2].write_text("second")
    places[3].write_text("late")
    with first.sole_writer(), second.sole_writer():  # the first beats no more
        second.publish(places[2], "x.parquet")
        with pytest.raises(InputError, match="another process has taken its job over; this one ends"):
            first.publish(places[3], "x.parquet")
    content = Objects(BUCKET).read("out/x.parquet")
    assert content
    assert content[0] == b"second"


def test_objects_that_consoles_write_for_folders_are_no_files(s3: Proxy, source: Path) -> None:
    put(s3, "empty/", b"")
    with pytest.raises(InputError, match=r"empty: no .parquet, .csv or .jsonl file is in this folder"):
        run(f"s3://{BUCKET}/empty", source.with_name("none"))
    for key in ("in/", "in/day=1/"):
        put(s3, key, b"")
    put(s3, "in/a.csv", "text\n犬\n".encode())
    assert run(IN, source.with_name("out")).summary["scored"] == 1


def test_an_object_is_written_only_on_the_state_that_was_seen(s3: Proxy) -> None:
    assert s3
    objects = Objects(BUCKET)
    assert objects.put("x", b"1", "d1", None)
    assert objects.put("x", b"2", "d2", None) is None, "it is there"
    before = objects.head("x")
    assert before
    assert objects.put("x", b"3", "d3", before)
    assert objects.put("x", b"4", "d4", before) is None, "it is another by now"
    content = objects.read("x")
    assert content
    assert (content[0], content[1].digest) == (b"3", "d3")
    objects.remove("x")
    assert objects.put("x", b"5", "d5", before) is None, "it is gone"
    assert objects.head("x") is None


def test_changed_input_is_named_and_nothing_of_it_is_published(s3: Proxy, source: Path) -> None:
    put_rows(s3, source)

    def change(entry: manifest.Entry) -> None:
        if entry["source"] == "b.parquet":
            put(s3, "in/c.csv", "text,x\n猫,1\nonly\n映画,2\n".encode())
            Objects(BUCKET).remove("in/d.jsonl")

    with pytest.raises(
        InputError, match=r"s3://bertline/in: 2 partitions are not .*: c.csv \(changed\); d.jsonl \(changed\)"
    ):
        run(IN, f"s3://{BUCKET}/out", on_partition=change)
    assert sorted(answers(s3, "out/")) == ["_quarantine/day=1/a.parquet.jsonl", "b.parquet", "day=1/a.parquet"]
    with pytest.raises(InputError, match=r"d.jsonl \(missing\); c.csv \(changed\)"):
        run(IN, f"s3://{BUCKET}/out")
    for name in ("c.csv", "d.jsonl"):
        put(s3, f"in/{name}", (source / name).read_bytes())
    assert run(IN, f"s3://{BUCKET}/out").scored_now == 2


def test_every_object_that_is_touched_is_a_finding(s3: Proxy, source: Path) -> None:
    put_rows(s3, source)
    run(IN, f"s3://{BUCKET}/out")
    put(s3, "out/b.parquet", answers(s3, "out/")["day=1/a.parquet"])
    Objects(BUCKET).remove("out/d.jsonl.parquet")
    put(s3, "out/mine.parquet", b"")
    put(s3, "in/c.csv", b"text\n")
    assert sorted(audit.audit(f"s3://{BUCKET}/out").findings) == [
        f"s3://{BUCKET}/in/c.csv: its bytes are others than when it was scored",
        f"s3://{BUCKET}/out/b.parquet: its bytes are not those that were written",
        f"s3://{BUCKET}/out/d.jsonl.parquet: missing",
        f"s3://{BUCKET}/out/mine.parquet: the manifest does not name it",
    ]


@pytest.mark.parametrize(
    ("source", "target", "sentence"),
    [
        (IN, f"{IN}/out", "s3://bertline/in/out: it and s3://bertline/in lie in each other"),
        (f"{IN}/day=1", IN, "lie in each other"),
        (f"s3://{BUCKET}/nothing", f"s3://{BUCKET}/out", "s3://bertline/nothing: no such file or folder"),
        ("s3://no-such-bucket/in", f"s3://{BUCKET}/out", r"s3://no-such-bucket/in/: S3 refuses it \(.*NoSuchBucket"),
        (IN, f"s3://{BUCKET}/mine", "s3://bertline/mine: exists, and is not the folder of a scoring job"),
        (f"s3://{BUCKET}/odd", f"s3://{BUCKET}/out", r"odd: /x.csv has an empty part, \. or \.\. in its name"),
        ("s3://", f"s3://{BUCKET}/out", "s3://: s3://BUCKET/FOLDER is expected"),
        (f"s3://{BUCKET}/a/../in", f"s3://{BUCKET}/out", "s3://BUCKET/FOLDER is expected"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_read(s3: Proxy, source: str, target: str, sentence: str) -> None:
    for key in ("in/day=1/a.jsonl", "mine/x", "odd//x.csv"):
        put(s3, key, b'{"text": "a"}')
    s3.requests.clear()
    with pytest.raises(InputError, match=sentence):
        run(source, target)
    assert not [path for method, path in s3.requests if method == "GET" and "list-type" not in path]


def test_a_file_is_refused_that_s3_would_not_take_in_one_piece(s3: Proxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(s3_folder.S3Folder, "largest_bytes", 10)
    put(s3, "in/a.jsonl", b'{"text": "a"}')
    with pytest.raises(
        InputError, match=r"s3://bertline/out: it takes answers to files of at most 0 GiB: divide a.jsonl"
    ):
        run(IN, f"s3://{BUCKET}/out")


def test_replays_increments_and_receipts_in_s3(s3: Proxy, source: Path, tmp_path: Path) -> None:
    put_rows(s3, source)
    out, keys = f"s3://{BUCKET}/jobs/out", tmp_path / "receipts.key"
    run(IN, out)
    mended = tmp_path / "mended.jsonl"
    mended.write_text(json.dumps({"source": "c.csv", "row": 1, "values": {"text": "犬", "x": "1"}}))
    assert replay.run(mended, out, "tiny").scored == 1
    assert replay.run(mended, out, "tiny").scored == 0
    receipt_keys.make(keys, "")
    options = job.Options(max_bad="100%", receipts=str(keys))
    job.run(IN, f"{out}-signed", "tiny", "champion", options)
    checked = verification.verify(f"{out}-signed", keys, replay=True)
    assert checked.receipts
    assert checked.replay
    assert (checked.findings, checked.receipts.rows, checked.replay.rows) == ([], 50, 50)
    one = verification.verify(f"{out}-signed/b.parquet", keys, replay=True)
    assert one.receipts
    assert one.replay
    assert (one.audit, one.findings, one.receipts.rows, one.replay.rows) == (None, [], 16, 16)
    with pytest.raises(InputError, match=r"b\.parquet: exists, and is not the folder of a scoring job"):
        run(IN, f"{out}-signed/b.parquet")
    options = job.Options(max_bad="100%", since=out)
    since = job.run(IN, f"{out}-since", "tiny", "champion", options)
    assert since.summary[manifest.MEASURED]["taken_over"] == 50
    listed = job_list.below(f"s3://{BUCKET}/jobs/")
    assert [(one.target, one.state) for one in listed] == [(out + end, "finished") for end in ("", "-signed", "-since")]
    assert audit.audit(out).findings == []


def test_a_command_with_a_file_for_the_answers_is_refused() -> None:
    refused = commands.bertline(f"score tiny {IN}/b.parquet x.parquet")
    assert refused.status == 2
    assert "x.parquet: in S3, and from S3, also the answers to one file are a folder; name a folder" in refused.err


def test_a_job_in_s3_is_cancelled_and_resumed(s3: Proxy, source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    put_rows(s3, source)
    monkeypatch.setattr(s3_folder, "CANCEL_SECONDS", 0.0)
    out, states = f"s3://{BUCKET}/out", list[str]()

    def cancel(entry: manifest.Entry) -> None:
        states.append(job_list.listed(out).state)
        job_list.cancel(out)

    with pytest.raises(InputError, match=rf"{out}: cancelled; what is finished stays: bertline jobs {out} --resume"):
        run(IN, out, on_partition=cancel)
    assert (states[0], job_list.listed(out).state) == ("under way", "cancelled")
    with pytest.raises(InputError, match="no process works on its job"):
        job_list.cancel(out)
    assert run(IN, out).scored_now == 3
    assert audit.audit(out).findings == []
