"""A scoring job killed by strace at random system calls: no row is lost, none doubled, finished input is not read."""

import json
import os
import random
import re
import shutil
import signal
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pipelines.scoring import audit, job, manifest
from tests.support import forked, tiny
from tests.support.forked import Forked

STRACE = shutil.which("strace")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not STRACE, reason="strace is not installed")]
KILLS = int(os.environ.get("BERTLINE_KILLS", "1000"))  # in soak tests
CALL = re.compile(r"(\w+)\(")
READ = re.compile(r"(?:read|pread64)\(\d+<(?P<file>[^>]*)>.* = (?P<size>\d+)$")


@dataclass(frozen=True)
class Ended:
    """The exit status of a job that was traced, and the partitions that it says it has scored."""

    status: int
    scored: list[str]


def write_rows(folder: Path) -> None:
    """Four partitions with bad rows among them, in all formats; most of their bytes are notes."""
    notes = ["".join(random.Random(row).choices("abcdefgh", k=2000)) for row in range(60)]
    texts = [*tiny.TEXTS, None] * 4
    pq.write_table(pa.table({"text": texts[:60], "note": notes}), folder / "a.parquet")
    (folder / "b.csv").write_text(
        "text,note\n" + "".join(f"犬,{note}\n" for note in notes) + "only\n", encoding="utf-8"
    )
    lines = [json.dumps({"text": "映画", "note": note}, ensure_ascii=False) for note in notes]
    (folder / "c.jsonl").write_text("\n".join([*lines, "{broken"]), encoding="utf-8")
    pq.write_table(pa.table({"text": tiny.TEXTS}), folder / "d.parquet")


def traced(source: Path, target: Path, *options: str) -> Ended:
    """Run a job to its end, or to its death, under strace from its begin; its imports are made before."""
    with forked.started("tests.support.run_job", str(source), str(target), "stop", leads=True) as process:
        process.until(lambda: status_of(process, "State").startswith("T"))
        command = [str(STRACE), "-f", "-qq", *options, "-p", str(process.pid)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as tracer:
            try:
                while status_of(process, "TracerPid") != str(tracer.pid):
                    if tracer.poll() is not None and tracer.stderr:
                        pytest.skip(f"strace may not trace here: {tracer.stderr.read().strip()}")
                os.kill(process.pid, signal.SIGCONT)
                status = process.wait()
            finally:
                process.kill()
        scored = [line for line in process.printed().splitlines() if " " not in line]
        assert status in (0, -signal.SIGKILL), process.said()
    return Ended(status, scored)


def status_of(process: Forked, name: str) -> str:
    """A value of /proc/PID/status."""
    lines = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8").splitlines()
    return next(line.partition("\t")[2] for line in lines if line.startswith(f"{name}:"))


def run(source: Path, target: Path) -> tuple[list[str], job.Outcome]:
    """Run the job to its end in this process; returns the partitions that it scored, and its outcome."""
    scored = list[str]()
    options = job.Options(max_bad="100%")
    outcome = job.run(source, target, "tiny", "champion", options, lambda entry: scored.append(entry["source"]))
    return scored, outcome


def finished(target: Path) -> list[str]:
    """The partitions that the manifest names."""
    return sorted(entry["source"] for entry in manifest.read(target).values())


def calls_of_main_thread(logs: list[Path], target: Path) -> tuple[list[str], int]:
    """The system calls of the thread that writes the target, in order, and the place of the one that makes it."""
    texts = [log.read_text(encoding="utf-8", errors="replace") for log in logs]
    lines = max(texts, key=lambda text: text.count(str(target))).splitlines()
    matches = [(match[1], line) for line in lines if (match := CALL.match(line))]
    return [name for name, _ in matches], next(i for i, (_, line) in enumerate(matches) if f'mkdir("{target}' in line)


@pytest.mark.timeout(6 * 3600)
@pytest.mark.parametrize("kills", [3, pytest.param(KILLS, marks=pytest.mark.soak)])
def test_a_kill_at_any_system_call_loses_no_row_and_doubles_none(
    source: Path, target: Path, tmp_path: Path, kills: int
) -> None:
    """One run writes all its system calls down; a kill then comes at one of them, drawn from all or the later ones."""
    write_rows(source)
    whole = tmp_path / "whole"
    assert traced(source, whole, "-ff", "-o", str(tmp_path / "calls")).status == 0
    root = audit.audit(whole).summary["root"]
    calls, first = calls_of_main_thread(list(tmp_path.glob("calls.*")), whole)
    assert len(calls) - first > 200
    rng, killed, moments = random.Random(1), 0, Counter[int]()
    for number in range(kills):
        place = tmp_path / f"killed-{number}"
        moment = rng.randrange(first if number % 4 else 0, len(calls))
        name, count = calls[moment], calls[: moment + 1].count(calls[moment])
        kill = f"inject={name}:signal=SIGKILL:when={count}"
        ended = traced(source, place, "-o", "/dev/null", "-e", f"trace={name}", "-e", kill)
        before = finished(place)
        killed += ended.status == -signal.SIGKILL
        moments[len(before)] += 1
        assert set(ended.scored) <= set(before), "what a job says it has scored is in the manifest"
        again, outcome = run(source, place)
        assert sorted([*before, *again]) == ["a.parquet", "b.csv", "c.jsonl", "d.parquet"]
        result = audit.audit(place)
        assert (result.findings, outcome.summary["root"]) == ([], root)
        shutil.rmtree(place)
    print(f"{killed} of {kills} killed; partitions that were finished before: {dict(sorted(moments.items()))}")
    assert killed > kills // 2


def test_a_job_that_goes_on_reads_finished_input_once_for_its_digest(
    source: Path, target: Path, tmp_path: Path
) -> None:
    write_rows(source)
    root = run(source, tmp_path / "whole")[1].summary["root"]
    kill = "inject=rename:signal=SIGKILL:when=6"  # the record, then quarantine, answers and entry of the first two
    assert traced(source, target, "-o", "/dev/null", "-e", "trace=rename", "-e", kill).status == -signal.SIGKILL
    done, log = finished(target), tmp_path / "reads"
    assert done == ["a.parquet"]
    assert traced(source, target, "-y", "-e", "trace=read,pread64", "-o", str(log)).status == 0
    read = Counter[str]()
    for match in filter(None, map(READ.search, log.read_text(encoding="utf-8", errors="replace").splitlines())):
        read[Path(match["file"]).name] += int(match["size"]) * match["file"].startswith(str(source))
    sizes = {file.name: file.stat().st_size for file in source.iterdir()}
    assert read["a.parquet"] == sizes["a.parquet"]
    for name in ("b.csv", "c.jsonl"):
        assert read[name] <= 1.05 * sizes[name], "its digest is that of the bytes that are scored"
    assert audit.audit(target).summary["root"] == root
