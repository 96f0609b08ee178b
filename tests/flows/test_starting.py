"""`bertline up` and `down` without servers: what could not be recorded is ended, and one of them goes at a time."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from flows.local import servers
from flows.local.prefect_settings import PIDS
from pipelines.core.errors import InputError
from tests.support import commands

REST = [sys.executable, "-c", "import time; time.sleep(600)"]
HOLD = (
    "import sys; from pipelines.core import locks\nwith locks.claim_entry('services', 'up'): print(flush=True), input()"
)


def test_a_server_that_cannot_be_recorded_is_ended(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PIDS.mkdir(parents=True)
    started = list[int]()

    def full_disk(pid: int) -> int:
        started.append(pid)
        raise OSError("No space left on device")

    monkeypatch.setattr(servers, "began", full_disk)
    with pytest.raises(OSError, match="No space"):
        servers._start("mlflow", REST, "")
    (pid,) = started
    assert not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    assert list(PIDS.iterdir()) == []


def test_an_interrupted_start_leaves_nothing(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PIDS.mkdir(parents=True)
    started = list[Any]()

    def interrupted(*_: Any) -> None:
        started.append(servers.running("mlflow"))
        raise KeyboardInterrupt

    monkeypatch.setattr(servers, "wait_for", interrupted)
    with pytest.raises(KeyboardInterrupt):
        servers._start("mlflow", REST, "http://127.0.0.1:9/health")
    (process,) = started
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    assert list(PIDS.iterdir()) == []


def test_one_up_or_down_goes_at_a_time(checkout: Path) -> None:
    commands.bertline("down").require(0)
    assert not Path("state/locks").exists(), "nothing to stop, nothing to write"
    PIDS.mkdir(parents=True)
    other = subprocess.Popen([sys.executable, "-c", HOLD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert other.stdout
        assert other.stdout.readline()
        for call in (servers.up, servers.down):
            with pytest.raises(InputError, match=f"up or down: it is already running .process {other.pid} on "):
                call()
    finally:
        other.communicate("\n")
    assert servers.down() == [], "the lock is free again"
