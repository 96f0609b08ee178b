"""A scoring job of a folder that is killed, run twice, out of disk or fed many files: no row is lost, none doubled."""

import json
import os
import random
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.errors import InputError
from pipelines.scoring import audit, job, manifest
from pipelines.tracking import registry
from tests.support import forked, full_disk, tiny

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("BERTLINE_KILLS", "1000"))  # in soak tests
MODULE = "tests.support.run_job"


def write_rows(folder: Path) -> None:
    """Four partitions with bad rows among them, in all formats."""
    (folder / "day=1").mkdir()
    pq.write_table(pa.table({"text": [*tiny.TEXTS, None] * 20, "n": range(340)}), folder / "day=1/a.parquet")
    pq.write_table(pa.table({"text": tiny.TEXTS}), folder / "b.parquet")
    (folder / "c.csv").write_bytes("text,x\n犬,1\nonly\n映画,2\n".encode())
    lines = [json.dumps({"text": text}) for text in tiny.TEXTS]
    (folder / "d.jsonl").write_text("\n".join([*lines, "{broken", *lines]))


@pytest.mark.parametrize("kills", [10, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_a_killed_job_loses_no_row_and_doubles_none(source: Path, target: Path, kills: int) -> None:
    """Half of the kills come at a random moment, half before a random operation on a file of the job."""
    write_rows(source)
    rng = random.Random(1)
    for place in (target.with_name("first"), target):  # the first one waits for the imports of all
        began = time.monotonic()
        with forked.started(MODULE, str(source), str(place), leads=True) as process:
            assert process.wait() == 0, process.said()
            events = int(process.said().split()[-1])
    took = time.monotonic() - began
    root = audit.audit(target).summary["root"]
    assert events > 40
    finished = killed = 0
    place = target.with_name("killed-0")
    for number in range(kills):
        before = sources(place)
        kill_at = rng.randint(1, events) if number % 2 else 0
        with forked.started(MODULE, str(source), str(place), str(kill_at), leads=True) as process:
            if not kill_at:
                time.sleep(rng.uniform(0.1, 0.9) * took)
                process.kill_all()
            status, printed = process.wait(), process.printed().splitlines()
        killed += status == -9
        assert status in (0, -9), process.said()
        scored = [line for line in printed if line in SOURCES]
        assert not before & set(scored), "a finished partition is scored again"
        assert_intact(place)
        if status == 0:
            assert audit.audit(place).summary["root"] == root
            finished += 1
            place = target.with_name(f"killed-{finished}")
    assert killed > kills // 2
    with forked.started(MODULE, str(source), str(place), leads=True) as process:
        assert process.wait() == 0, process.said()
    result = audit.audit(place)
    assert (result.findings, result.summary["root"]) == ([], root)


SOURCES = {"day=1/a.parquet", "b.parquet", "c.csv", "d.jsonl"}


def sources(place: Path) -> set[str]:
    """The partitions that the manifest names."""
    return {entry["source"] for entry in manifest.read(place).values()}


def assert_intact(place: Path) -> None:
    """All that the manifest of an unfinished job names is as it was written."""
    if manifest.files(place):
        named = sources(place)
        findings = audit.audit(place).findings
        unfinished = ("missing; the job is not finished", "no entry of the manifest", "the manifest does not name it")
        assert [line for line in findings if not line.endswith(unfinished)] == []
        assert not any(f"{name}: no entry" in line for name in named for line in findings)


def test_of_two_jobs_at_once_one_is_refused_or_finds_it_done(source: Path, target: Path) -> None:
    write_rows(source)
    with (
        forked.started(MODULE, str(source), str(target), leads=True) as first,
        forked.started(MODULE, str(source), str(target), leads=True) as second,
    ):
        statuses = [process.wait() for process in (first, second)]
        outputs = [process.printed() + process.said() for process in (first, second)]
    assert 0 in statuses, outputs
    for status, output in zip(statuses, outputs, strict=True):
        assert status == 0 or "another process is writing it; wait until it ends" in output
    printed = "".join(outputs).splitlines()
    assert sorted(line for line in printed if line in SOURCES) == sorted(SOURCES)
    assert audit.audit(target).findings == []


def test_a_full_disk_is_one_sentence_and_the_job_goes_on_later(source: Path, target: Path) -> None:
    rng = random.Random(1)
    pq.write_table(pa.table({"text": ["犬"]}), source / "a.parquet")
    noise = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=3000)) for _ in range(300)]
    pq.write_table(pa.table({"text": ["犬"] * 300, "noise": noise}), source / "b.parquet")
    with (
        full_disk.largest_file(100_000),
        pytest.raises(InputError, match=r"b.parquet: it cannot be written .*run the job again"),
    ):
        job.run(source, target, "tiny", "champion", job.Options())
    assert sources(target) == {"a.parquet"}
    assert not (target / "b.parquet").exists()
    assert job.run(source, target, "tiny", "champion", job.Options()).scored_now == 1
    assert audit.audit(target).findings == []


def test_a_clock_that_was_set_back_decides_nothing(source: Path, target: Path) -> None:
    write_rows(source)
    options = job.Options(max_bad="100%")
    job.run(source, target, "tiny", "champion", options)
    for file in (*source.rglob("*.*"), *target.rglob("*.*")):
        os.utime(file, (0, 0))
    assert job.run(source, target, "tiny", "champion", options).scored_now == 0
    assert audit.audit(target).findings == []


@pytest.mark.parametrize("files", [60, pytest.param(50_000, marks=pytest.mark.soak)])
def test_a_folder_of_many_small_files(source: Path, target: Path, files: int) -> None:
    for number in range(files):
        (source / f"{number:05d}.jsonl").write_text('{"text": "a"}\n' * (number % 3))
    outcome = job.run(source, target, "tiny", "champion", job.Options())
    assert outcome.summary["partitions"] == files
    assert outcome.summary["rows"] == sum(number % 3 for number in range(files))
    assert audit.audit(target).findings == []


def test_rows_of_many_megabytes_are_bad_rows_and_repeated_texts_need_little_memory(
    source: Path, target: Path, version: registry.Version
) -> None:
    """A text of 900,000 characters in all rows is one value of a dictionary in Parquet; a piece has few such rows."""
    assert version
    long = "映" * 900_000
    pq.write_table(pa.table({"text": ["犬"] * 50, "note": [long] * 50}), source / "a.parquet")
    pq.write_table(pa.table({"text": ["x" * 5_000_000, "犬"]}), source / "b.parquet")
    outcome = job.run(source, target, "tiny", "champion", job.Options(max_bad="1"))
    assert (outcome.summary["rows"], outcome.summary["quarantined"]) == (52, 1)
    note = pq.ParquetFile(target / "a.parquet").read_row_group(0, ["note"]).column("note")
    assert note[0].as_py() == long
    assert (target / "_quarantine/b.parquet.jsonl").stat().st_size < 2000
