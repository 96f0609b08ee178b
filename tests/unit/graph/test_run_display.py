"""The lines that `bertline run` prints: a failure is marked, in red on a terminal, so that it looks unlike progress."""

import io
import os
import pty
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import yaml
from dvc.repo import Repo

from pipelines.core.stage import MARK, RED
from tests.support.places import ROOT

COMMAND = [sys.executable, "-m", "flows.cli", "run", "--keep-going", "--jobs", "1"]
GRAPH = {"bad": {"cmd": "echo working; exit 2"}, "good": {"cmd": "echo 1 > good.txt", "outs": ["good.txt"]}}


@pytest.fixture
def environment(checkout: Path) -> dict[str, str]:
    """A repository in which one stage fails and one does not, and the environment of a command that is not quiet."""
    Repo.init(no_scm=True).close()
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": GRAPH}))
    Path("params.yaml").write_text("resources: {threads: 1}\n")
    variables = {name: value for name, value in os.environ.items() if name not in ("BERTLINE_QUIET", "NO_COLOR")}
    return variables | {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color"}


def test_a_failure_is_marked_and_progress_is_not(environment: dict[str, str]) -> None:
    ended = subprocess.run(COMMAND, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (1, "")
    marked = [line.partition(MARK) for line in ended.stderr.splitlines() if MARK in line]
    assert [place for place, _, _ in marked] == ["bad: ", "bertline: "]
    assert [says.startswith(("failed after ", "bad failed: working")) for _, _, says in marked] == [True, True]
    assert "good: done after " in ended.stderr
    assert "\033[" not in ended.stderr


def test_the_mark_is_red_on_a_terminal(environment: dict[str, str]) -> None:
    mine, theirs = pty.openpty()
    with (
        os.fdopen(mine, "rb", buffering=0) as terminal,
        subprocess.Popen(COMMAND, env=environment, stdin=theirs, stdout=theirs, stderr=theirs),
    ):
        os.close(theirs)
        shown = b"".join(iter(partial(shown_by, terminal), b"")).decode()
    lines = [line.partition(f"{RED[0]}{MARK}") for line in shown.splitlines()]
    assert [place[-5:] for place, mark, _ in lines if mark] == ["bad: ", "ine: "]
    assert "good: done after " in shown


def shown_by(terminal: io.FileIO) -> bytes:
    """The bytes that a terminal shows next; none after the last process has closed it."""
    try:
        return terminal.read(65536) or b""
    except OSError:
        return b""
