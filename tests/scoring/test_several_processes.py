"""Partitions scored by several processes: the files of one, whichever process is killed, and each named once."""

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.core.errors import InputError
from pipelines.scoring import audit, job, manifest, scorers
from tests.support import endings, forked, tiny

pytestmark = pytest.mark.slow
KILLS = int(os.environ.get("BERTLINE_KILLS", "50"))  # in soak tests
MODULE = "tests.support.run_job"
FILES = 6


def write(source: Path, files: int = FILES, rows: int = 16) -> None:
    for number in range(files):
        texts = [f"{tiny.TEXTS[i % 4]} {number} {i}" for i in range(rows)]
        pq.write_table(pa.table({"text": [*texts, None], "n": range(rows + 1)}), source / f"{number}.parquet")


def run(source: Path, target: Path, workers: int, on_partition: job.OnPartition | None = None) -> job.Outcome:
    return job.run(source, target, "tiny", "champion", job.Options(max_bad="100%"), on_partition, workers)


def answers(target: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in target.glob("*.parquet")}


def test_two_processes_write_the_files_of_one(source: Path, target: Path) -> None:
    write(source)
    one, names = run(source, target, 1), list[str]()
    two = run(source, target.with_name("two"), 2, lambda entry: names.append(entry["source"]))
    assert two.summary["root"] == one.summary["root"]
    assert answers(Path(two.target)) == answers(target)
    assert sorted(names) == [f"{number}.parquet" for number in range(FILES)]
    assert audit.audit(Path(two.target)).findings == []
    assert not list(Path(two.target).glob("_partial/*"))
    three = source.with_name("three")
    options = job.Options(max_bad="100%", since=two.target)
    since = job.run(source, three, "tiny", "champion", options, workers=2)
    assert (since.summary["root"], since.summary[manifest.MEASURED]["taken_over"]) == (one.summary["root"], 96)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("kills", [2, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_a_killed_process_or_parent_loses_no_row_and_doubles_none(source: Path, target: Path, kills: int) -> None:
    """In turn one of the two processes is killed, and their parent alone, after a random number of partitions."""
    write(source, rows=600)
    root, rng = run(source, target, 1).summary["root"], random.Random(1)
    for number in range(kills):
        place, printed = target.with_name(f"killed-{number}"), list[str]()
        with forked.started(MODULE, str(source), str(place), "0", "2", leads=True) as process:
            process.until(lambda place=place: any(place.glob("_partial/tmp*")))  # type: ignore[misc]
            children = workers_of(process.pid)
            assert len(children) == 2
            time.sleep(rng.uniform(0, 0.2))
            one_of_two = number % 2 == 0
            with suppress(ProcessLookupError):
                os.kill(children[0].pid if one_of_two else process.pid, signal.SIGKILL)
            status = process.wait()
            printed += process.printed().splitlines()
            assert status in ((0,) if one_of_two else (0, -signal.SIGKILL)), process.said()
        assert endings.alive_after(children, 60) == [], "they end with their parent"
        if status:
            with forked.started(MODULE, str(source), str(place), "0", "2") as process:
                assert process.wait() == 0, process.said()
                printed += process.printed().splitlines()
        scored = [line for line in printed if line.endswith(".parquet")]
        assert len(scored) == len(set(scored)), "a finished partition is scored again"
        result = audit.audit(place)
        assert (result.findings, result.summary["root"]) == ([], root)


def workers_of(pid: int) -> list[psutil.Process]:
    """The processes that score for a parent; multiprocessing's tracker of resources is none."""
    children = psutil.Process(pid).children()
    return [child for child in children if "spawn_main" in " ".join(child.cmdline())]


def test_a_process_that_is_killed_again_and_again_is_an_error(
    source: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where the system kills what takes too much memory: here each process kills itself when it begins."""
    write(source, 2)
    monkeypatch.setattr(scorers, "_begin", _killed)
    with pytest.raises(InputError, match=r"killed 3 times in a row while they scored 0.parquet; 1.parquet; is memory"):
        run(source, target, 2)
    assert not (target / manifest.SUMMARY).exists()
    monkeypatch.undo()
    assert run(source, target, 2).scored_now == 2


def _killed(*arguments: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_an_error_in_a_process_is_that_of_the_job(source: Path, target: Path) -> None:
    write(source, 8)

    def change(entry: manifest.Entry) -> None:
        write(source, 8, rows=5)

    with pytest.raises(InputError, match=r"partitions are not as they were when the job began: .*\(changed\)"):
        run(source, target, 2, change)
    assert 1 <= len(manifest.files(target)) <= 7
