"""Changes are made in their order, and a process does not wait for one that waits for a registry."""

import subprocess
import sys
import threading
from concurrent.futures import CancelledError

import pytest

from pipelines.serving.change_queue import ChangeQueue
from tests.support.places import ROOT

ENDS = """
import threading
from pipelines.serving.change_queue import ChangeQueue
changes, began = ChangeQueue(), threading.Event()
changes.submit(lambda: began.set() or threading.Event().wait())
began.wait()
changes.shutdown(wait=False, cancel_futures=True)
print("the service ends")
"""


def test_changes_are_made_in_their_order() -> None:
    changes, order = ChangeQueue(), list[int]()
    results = [changes.submit(order.append, number) for number in range(20)]
    wrong = changes.submit(int, "no number")
    names = {changes.submit(lambda: threading.current_thread().name).result(60) for _ in range(3)}
    assert [result.result(60) for result in results] == [None] * 20
    assert order == list(range(20))
    assert names == {"changes"}
    with pytest.raises(ValueError, match="no number"):
        wrong.result(60)
    changes.shutdown()
    with pytest.raises(RuntimeError, match="the service ends"):
        changes.submit(order.append, 20)


def test_what_waits_at_the_end_is_made_or_cancelled() -> None:
    for cancelled in (False, True):
        changes, go, order = ChangeQueue(), threading.Event(), list[int]()
        first = changes.submit(go.wait, 60)
        second = changes.submit(order.append, 2)
        changes.shutdown(wait=False, cancel_futures=cancelled)
        go.set()
        assert first.result(60)
        if cancelled:
            with pytest.raises(CancelledError):
                second.result(60)
        else:
            second.result(60)
        assert order == ([] if cancelled else [2])


def test_a_process_ends_while_a_change_waits() -> None:
    ended = subprocess.run([sys.executable, "-c", ENDS], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "the service ends\n", "")
