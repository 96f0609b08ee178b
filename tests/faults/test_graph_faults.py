"""`bertline run` killed at random moments: the next run leaves the same files as an uninterrupted one."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path

import psutil
import pytest
import yaml
from dvc.repo import Repo

from pipelines.graph import dvc_steps as repository_of_dvc
from tests.support import endings, forked
from tests.support.forked import Forked
from tests.support.places import ROOT

pytestmark = pytest.mark.slow
MOMENTS = int(os.environ.get("BERTLINE_KILLS", "3"))  # kills of each kind of process in soak tests
MOST = 20  # the most attempts until a kill interrupts a run
ABOVE = {"a": (), "b": (), "c": ("a",), "d": ("a", "b"), "e": ("c", "d")}
LOCKS = ("dvc.lock", "a.txt", "b.txt", "c.txt", "d.txt", "e.txt")


@pytest.fixture
def repository(checkout: Path) -> Path:
    """A checkout with five stages that take half a second each, and write their output in two steps."""
    Repo.init(no_scm=True).close()
    stages = {}
    for name, deps in ABOVE.items():
        read = [f"{dep}.txt" for dep in deps]
        write = f"echo {name} > {name}.txt; sleep 0.5; cat {' '.join(read)} /dev/null >> {name}.txt"
        stages[name] = {"cmd": write, "outs": [f"{name}.txt"]} | ({"deps": read} if read else {})
    (checkout / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    (checkout / "params.yaml").write_text("resources: {threads: 1}\n")
    return checkout


def start() -> AbstractContextManager[Forked]:
    return forked.started("flows.cli", "run", OMP_NUM_THREADS="2")


def finish() -> str:
    """Run the graph to its end; returns what it printed to stderr."""
    done = forked.run("flows.cli", "run", OMP_NUM_THREADS="2")
    assert done.returncode == 0, done.stderr
    return done.stderr


def texts() -> dict[str, bytes]:
    return {name: Path(name).read_bytes() for name in LOCKS}


def victim(run: Forked, kind: str) -> int:
    """The id of the process to kill: the executor, the warm process, or one of the warm process's children."""
    executor = psutil.Process(run.pid)
    if kind == "executor":
        return run.pid
    until = time.monotonic() + 20
    while time.monotonic() < until and run.poll() is None:
        warm = [process for process in executor.children() if "forkserver.main" in " ".join(process.cmdline())]
        below = warm[0].children() if warm and kind == "stage" else warm
        if below:
            return random.choice(below).pid
        time.sleep(0.01)
    return run.pid


@pytest.mark.parametrize("moments", [1, pytest.param(MOMENTS, marks=pytest.mark.soak)])
@pytest.mark.parametrize("kind", ["executor", "warm process", "stage"])
def test_a_killed_run_finishes_when_run_again(repository: Path, kind: str, moments: int) -> None:
    finish()
    whole, draw, broken, number = texts(), random.Random(kind), 0, 0
    while number < moments or not broken:
        number += 1
        assert number < MOST, "no run was broken"
        for name in LOCKS:
            Path(name).unlink()
        for folder in (".dvc/cache", "state"):
            shutil.rmtree(folder)
        with start() as run:
            run.until(Path("state/locks").exists)
            time.sleep(draw.uniform(0, 2))
            with suppress(ProcessLookupError):  # the last stage may end before the kill
                if run.poll() is None:
                    os.kill(victim(run, kind), signal.SIGKILL)
            broken += run.wait() != 0
        finish()
        assert texts() == whole
    status = subprocess.run([sys.executable, "-m", "dvc", "status"], capture_output=True, text=True, check=True)
    assert "up to date" in status.stdout


def test_after_a_kill_dvc_repro_goes_on_too(repository: Path) -> None:
    with start() as run:
        run.until(Path("b.txt").exists)
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q"], check=True)
    assert Path("e.txt").read_text() == "e\nc\na\nd\na\nb\n"


def test_a_lock_file_that_another_run_is_writing_is_left_to_it(repository: Path) -> None:
    """`bertline why` waits for a run that writes dvc.lock."""
    finish()
    with repository_of_dvc.opened() as repo, repository_of_dvc.locked(repo):
        why = [sys.executable, "-m", "flows.cli", "why", "a"]
        process = subprocess.Popen(why, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE)
        time.sleep(6)
        assert process.poll() is None, "it waits"
        whole = Path("dvc.lock").read_bytes() + b"# written now\n"
        Path("dvc.lock").write_bytes(whole)
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert Path("dvc.lock").read_bytes() == whole


def test_a_stale_lock_of_an_ended_process_is_ignored(repository: Path) -> None:
    """DVC looks only at the process id of an entry, which another process may have by now."""
    busy = {"pid": 1, "cmd": "dvc repro"}
    Path(".dvc/tmp").mkdir(exist_ok=True)
    Path(".dvc/tmp/rwlock").write_text(json.dumps({"write": {f"{repository}/a.txt": busy}}))
    finish()
    assert Path("a.txt").read_text() == "a\n"


def test_ctrl_c_ends_what_it_started_and_only_that(repository: Path) -> None:
    stages = yaml.safe_load(Path("dvc.yaml").read_text())["stages"]
    stages["a"]["cmd"] = "trap '' INT; sleep 98 & sleep 99; echo a > a.txt"  # ignores the interrupt
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    with subprocess.Popen(["sleep", "600"]) as bystander:
        try:
            with start() as run:
                run.until(lambda: "sleep 99" in " ".join(commands(run.pid)))
                started = psutil.Process(run.pid).children(recursive=True)
                os.kill(run.pid, signal.SIGINT)
                assert run.wait(20) == 130
                assert run.said().strip().splitlines()[-1] == "bertline: interrupted"
            assert endings.alive_after(started, 1) == []
            assert bystander.poll() is None
        finally:
            bystander.kill()


def commands(pid: int) -> list[str]:
    lines = []
    for process in psutil.Process(pid).children(recursive=True):
        try:
            lines.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return lines


def test_a_folder_that_is_half_in_the_cache_is_no_result(repository: Path) -> None:
    """The disk is full after the first file; a limit of the file size simulates this."""
    large = "ulimit -S -f unlimited; mkdir out; echo small > out/a; head -c 900000 /dev/zero > out/b"
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": {"a": {"cmd": large, "outs": ["out"]}}}))
    command = f"ulimit -S -f 1400 && exec {sys.executable} -m flows.cli run"  # in blocks of 512 bytes
    done = subprocess.run(
        ["sh", "-c", command], env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == (
        "bertline: error: a failed: out: DVC's cache lacks some of its files; is its disk full?"
    )
    assert not Path("dvc.lock").exists()
    finish()
    assert Path("dvc.lock").is_file()
