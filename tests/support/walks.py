"""Run the commands of a page as they stand there, in one shell, in a project of one's own.

What is `bertline` alone runs in this process, since its imports take longer than most commands.
"""

import json
import os
import re
import shlex
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from flows.local.http_service import wait_for
from pipelines.core.ports import free_port
from tests.conftest import PREFECT
from tests.support import commands
from tests.support.places import ROOT

IDENTITY = {f"GIT_{role}_{part}": "test@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
MAY_FAIL = {"bertline doctor": (0, 1)}  # it ends with 1 where this machine has a problem


def at_home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make `folder` the home of a person with this installation and a name in Git."""
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("PREFECT_HOME", str(PREFECT))
    monkeypatch.setenv("PATH", f"{ROOT / '.venv/bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("PYTHONPATH", raising=False)


def commands_of(page: str, heading: str) -> list[str]:
    """The commands below a heading of a page."""
    part = (ROOT / page).read_text(encoding="utf-8").partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```$", part, re.M | re.S) for line in block.splitlines()]
    assert len(lines) > 3
    return lines


def run(line: str) -> str:
    """The output of a line in a shell whose folder stays from one line to the next; an error if it fails."""
    if line.startswith("cd "):
        os.chdir(line.removeprefix("cd "))
        return ""
    if line.startswith("bertline "):
        words = [os.path.expanduser(word) for word in shlex.split(line, comments=True)[1:]]
        command = commands.bertline(*words)
        status, out, err = command.status, command.out, command.err
    else:
        shell = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        status, out, err = shell.returncode, shell.stdout, shell.stderr
    assert status in MAY_FAIL.get(line, (0,)), f"{line}\n{out}{err}"
    return out


def answer(serve: str, ask: str) -> dict[str, Any]:
    """The prediction of a page's service for its request of one row, at another port; Ctrl-C ends the service."""
    port = free_port()
    service = subprocess.Popen([*shlex.split(serve), "--port", str(port)], stdout=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", 300)
        (prediction,) = json.loads(run(ask.replace(":8000", f":{port}")))["predictions"]
    finally:
        service.send_signal(signal.SIGINT)
        service.wait(60)
    return dict(prediction)


def train_less(epochs: int) -> None:
    """Let the models of params.yaml train for so many epochs, and name their runtime, which would be measured."""
    file = Path("params.yaml")
    text = re.sub(r"epochs: \d+", f"epochs: {epochs}", file.read_text(encoding="utf-8"))
    assert f"epochs: {epochs}" in text
    named = "" if "\nresources:" in text else "\nresources: {runtime: onnx}\n"
    file.write_text(text + named, encoding="utf-8")
