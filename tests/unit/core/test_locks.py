"""Locks between processes: one waits or is refused until the other ends."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from pipelines.core import locks
from pipelines.core.errors import InputError
from tests.support.places import ROOT


def test_looking_for_a_writer_stops_none(tmp_path: Path) -> None:
    ended, looks = threading.Event(), list[bool]()

    def look() -> None:
        while not ended.is_set():
            looks.append(locks.is_claimed(tmp_path, "lock"))

    assert not locks.is_claimed(tmp_path, "lock"), "there is no such file yet"
    with locks.claim_file(tmp_path, "lock"):
        assert locks.is_claimed(tmp_path, "lock")
        with pytest.raises(InputError, match="another process"), locks.claim_file(tmp_path, "lock"):
            pass
    watchers = [threading.Thread(target=look) for _ in range(3)]
    for watcher in watchers:
        watcher.start()
    try:
        for _ in range(100):
            with locks.claim_file(tmp_path, "lock"):
                pass
    finally:
        ended.set()
        for watcher in watchers:
            watcher.join()
    assert len(looks) > 10
    with pytest.raises(BlockingIOError, match="of the block"), locks.claim_file(tmp_path, "lock"):
        raise BlockingIOError("of the block")


def test_a_turn_is_waited_for(tmp_path: Path) -> None:
    order = []

    def second() -> None:
        with locks.wait_for_folder(tmp_path):
            order.append("second")

    with locks.wait_for_folder(tmp_path):
        thread = threading.Thread(target=second)
        thread.start()
        thread.join(0.2)
        order.append("first")
    thread.join()
    assert order == ["first", "second"]


def test_a_lock_of_another_process_is_seen_and_an_own_one_kept(checkout: Path) -> None:
    assert not locks.runs_elsewhere("run", "all")
    code = "from pipelines.core import locks; import sys\n"
    code += "with locks.claim_entry('run', 'all'): print('held', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == b"held\n"
        for _ in range(2):
            assert locks.runs_elsewhere("run", "all")
            with pytest.raises(InputError, match="it is already running"), locks.claim_entry("run", "all"):
                pass
        other.communicate(b"")
    assert not locks.runs_elsewhere("run", "all")
    with locks.claim_entry("run", "all"):
        assert not locks.runs_elsewhere("run", "all")
        look = "from pipelines.core import locks; print(locks.runs_elsewhere('run', 'all'))"
        seen = subprocess.run(
            [sys.executable, "-c", look], capture_output=True, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True
        )
        assert seen.stdout == b"True\n", "the look did not free this process's lock"
