"""`bertline run` killed at random moments: the next run ends with what an unbroken one would have left."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
import yaml

from pipelines.graph import repository as repository_of_dvc
from tests.support.places import ROOT

pytestmark = pytest.mark.slow
MOMENTS = int(os.environ.get("BERTLINE_KILLS", "3"))  # of each kind
ABOVE = {"a": (), "b": (), "c": ("a",), "d": ("a", "b"), "e": ("c", "d")}
LOCKS = ("dvc.lock", "a.txt", "b.txt", "c.txt", "d.txt", "e.txt")


@pytest.fixture
def repository(checkout: Path) -> Path:
    """Five stages that take half a second each, and write in two steps."""
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], check=True)
    stages = {}
    for name, deps in ABOVE.items():
        read = [f"{dep}.txt" for dep in deps]
        write = f"echo {name} > {name}.txt; sleep 0.5; cat {' '.join(read)} /dev/null >> {name}.txt"
        stages[name] = {"cmd": write, "outs": [f"{name}.txt"]} | ({"deps": read} if read else {})
    (checkout / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    (checkout / "params.yaml").write_text("resources: {threads: 1}\n")
    return checkout


def start() -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "2"}
    return subprocess.Popen([sys.executable, "-m", "flows.cli", "run"], env=environment, stderr=subprocess.PIPE)


def finish(run: subprocess.Popen[bytes]) -> str:
    """Wait for a run that is to succeed; returns what it said."""
    said = run.communicate(timeout=60)[1].decode()
    assert run.returncode == 0, said
    return said


def texts() -> dict[str, bytes]:
    return {name: Path(name).read_bytes() for name in LOCKS}


def victim(run: subprocess.Popen[bytes], kind: str) -> int:
    """The process to kill: the executor, the warm process, or one of its children if there is any by then."""
    executor = psutil.Process(run.pid)
    if kind == "executor":
        return run.pid
    until = time.monotonic() + 20
    while time.monotonic() < until and run.poll() is None:
        warm = [each for each in executor.children() if "warm.main" in " ".join(each.cmdline())]
        below = warm[0].children() if warm and kind == "stage" else warm
        if below:
            return random.choice(below).pid
        time.sleep(0.01)
    return run.pid


@pytest.mark.parametrize("kind", ["executor", "warm process", "stage"])
def test_killed_and_run_again(repository: Path, kind: str) -> None:
    finish(start())
    whole, draw, broken = texts(), random.Random(kind), 0
    for _ in range(MOMENTS):
        for name in LOCKS:
            Path(name).unlink()
        for folder in (".dvc/cache", "state"):
            shutil.rmtree(folder)
        run = start()
        while not Path("state/locks").exists():  # Python and the imports take longer than the stages
            time.sleep(0.01)
        time.sleep(draw.uniform(0, 2))
        with suppress(ProcessLookupError):  # the last stage may end between the look and the kill
            if run.poll() is None:
                os.kill(victim(run, kind), signal.SIGKILL)
        run.communicate(timeout=60)
        broken += run.returncode != 0
        finish(start())
        assert texts() == whole
    assert broken
    status = subprocess.run([sys.executable, "-m", "dvc", "status"], capture_output=True, text=True, check=True)
    assert "up to date" in status.stdout


def test_after_a_kill_dvc_repro_goes_on_too(repository: Path) -> None:
    run = start()
    while not Path("b.txt").exists():
        assert run.poll() is None
        time.sleep(0.05)
    run.kill()
    run.communicate()
    subprocess.run([sys.executable, "-m", "dvc", "repro", "-q"], check=True)
    assert Path("e.txt").read_text() == "e\nc\na\nd\na\nb\n"


def test_a_lock_file_that_was_half_written_is_put_back(repository: Path) -> None:
    finish(start())
    whole = Path("dvc.lock").read_bytes()
    Path("state/run/dvc.lock").write_bytes(whole)  # as it stands while DVC writes
    Path("dvc.lock").write_bytes(whole[:100])
    finish(start())
    assert Path("dvc.lock").read_bytes() == whole


def test_a_lock_file_that_another_run_is_writing_is_left_to_it(repository: Path) -> None:
    """`bertline why` waits for a run that writes dvc.lock, and does not take it for one that was killed."""
    finish(start())
    with repository_of_dvc.opened() as repo, repository_of_dvc.held(repo), repository_of_dvc._kept_lock():
        why = [sys.executable, "-m", "flows.cli", "why", "a"]
        asked = subprocess.Popen(why, env=os.environ | {"PYTHONPATH": str(ROOT)}, stdout=subprocess.PIPE)
        time.sleep(6)
        assert asked.poll() is None, "it waits"
        whole = Path("dvc.lock").read_bytes() + b"# written now\n"
        Path("dvc.lock").write_bytes(whole)
    asked.communicate(timeout=60)
    assert asked.returncode == 0
    assert Path("dvc.lock").read_bytes() == whole


def test_an_entry_of_a_process_that_has_ended_is_no_hindrance(repository: Path) -> None:
    """DVC takes any process that has the number now for the one that wrote the entry."""
    busy = {"pid": 1, "cmd": "dvc repro"}
    Path(".dvc/tmp").mkdir(exist_ok=True)
    Path(".dvc/tmp/rwlock").write_text(json.dumps({"write": {f"{repository}/a.txt": busy}}))
    finish(start())
    assert Path("a.txt").read_text() == "a\n"


def test_ctrl_c_ends_what_it_started_and_only_that(repository: Path) -> None:
    stages = yaml.safe_load(Path("dvc.yaml").read_text())["stages"]
    stages["a"]["cmd"] = "trap '' INT; sleep 98 & sleep 99; echo a > a.txt"  # does not heed the interrupt
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    with subprocess.Popen(["sleep", "20"]) as bystander:
        run = start()
        while "sleep 99" not in " ".join(commands(run.pid)):
            assert run.poll() is None
            time.sleep(0.05)
        started = psutil.Process(run.pid).children(recursive=True)
        run.send_signal(signal.SIGINT)
        before = time.monotonic()
        _, said = run.communicate(timeout=20)
        assert time.monotonic() - before < 5
        assert run.returncode == 130
        assert said.decode().strip().splitlines()[-1] == "bertline: interrupted"
        _, left = psutil.wait_procs(started, timeout=1)
        assert [each for each in left if each.status() != psutil.STATUS_ZOMBIE] == []  # init has not buried them yet
        assert bystander.poll() is None
        bystander.kill()


def commands(pid: int) -> list[str]:
    found = []
    for each in psutil.Process(pid).children(recursive=True):
        try:
            found.append(" ".join(each.cmdline()))
        except psutil.Error:
            continue
    return found
