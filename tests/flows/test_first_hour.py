"""The walks of docs/first-hour.md, in their order, in one project: exactly the commands; the model trains less.

What is `bertline` alone runs in this process, since its imports take longer than most commands.
"""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest
import yaml

from flows.local.http_service import free_port, wait_for
from tests.conftest import PREFECT
from tests.support import commands, tickets
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
IDENTITY = {f"GIT_{role}_{part}": "test@example.org" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")}
PAGE = (ROOT / "docs/first-hour.md").read_text(encoding="utf-8")
EPOCHS = 2
MAY_FAIL = {"bertline doctor": (0, 1)}  # it ends with 1 where this machine has a problem


def walk(heading: str) -> list[str]:
    """The commands of a part of the page."""
    part = PAGE.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    lines = [line for block in re.findall(r"^```sh\n(.*?)^```$", part, re.M | re.S) for line in block.splitlines()]
    assert len(lines) > 3
    return lines


def run(line: str) -> str:
    """The output of a line in a shell whose folder stays from one line to the next."""
    if line.startswith("cd "):
        os.chdir(line.removeprefix("cd "))
        return ""
    if line.startswith("bertline "):
        words = [os.path.expanduser(word) for word in shlex.split(line)[1:]]
        command = commands.bertline(*words)
        status, out, err = command.status, command.out, command.err
    else:
        shell = subprocess.run(["bash", "-c", line], capture_output=True, text=True, check=False)
        status, out, err = shell.returncode, shell.stdout, shell.stderr
    assert status in MAY_FAIL.get(line, (0,)), f"{line}\n{out}{err}"
    return out


@pytest.fixture
def home(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A home with a file of tickets, and one of those of March."""
    for name, rows, seed in (("tickets", 300, 1), ("march", 30, 5)):
        with Path(f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file).writerows([("text", "label"), *tickets.texts("en", rows, seed)])
    for name, value in IDENTITY.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOME", str(checkout))
    monkeypatch.setenv("PREFECT_HOME", str(PREFECT))
    monkeypatch.setenv("PATH", f"{ROOT / '.venv/bin'}:{os.environ['PATH']}")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    yield
    mlflow.set_tracking_uri(None)


@pytest.mark.usefixtures("home")
def test_four_first_hours() -> None:
    engineer = iter(walk("Data engineer"))
    output = {}
    for line in engineer:
        output[line] = run(line)
        if line.startswith("bertline new"):
            train_less(Path("params.yaml"))
    assert "tickets-baseline" in output["bertline table"]
    assert "rows are added; train" in output["bertline add ~/march.csv --to tickets"]
    assert "tickets.csv" in output["bertline why prepare@tickets"]
    assert run("git status --porcelain") == ""

    owner = {line: run(line) for line in walk("Model owner")}
    assert owner["bertline retrain tickets"] == "tickets version 1 is the challenger\n"
    promoted = owner['bertline promote tickets --reason "the first version"']
    assert promoted.endswith("tickets version 1 is the champion\n")
    assert "the first version" in owner["bertline history tickets"]

    serve, ask, *others = walk("Application developer")
    port = free_port()
    service = subprocess.Popen([*shlex.split(serve), "--port", str(port)], stdout=subprocess.DEVNULL)
    try:
        wait_for(f"http://127.0.0.1:{port}/health", 300)
        (answer,) = json.loads(run(ask.replace(":8000", f":{port}")))["predictions"]
    finally:
        service.send_signal(signal.SIGINT)
        service.wait(60)
    assert answer["label"] in tickets.LABELS
    for line in others:
        assert answer["label"] in run(line)

    operator = {line: run(line) for line in walk("Operator")}
    assert "champion" in operator["bertline status"]
    assert Path("scored").is_dir()


def train_less(file: Path) -> None:
    """Train for fewer epochs, and accept a model that is below its baseline because of it."""
    text = file.read_text(encoding="utf-8")
    text = re.sub(r"epochs: \d+", f"epochs: {EPOCHS}", text)
    file.write_text(re.sub(r"at_least: 0\.0\b", "at_least: 0.0, beats: false", text), encoding="utf-8")
    params = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert params["finetune"]["tickets"]["epochs"] == EPOCHS
    assert params["promote"]["tickets"]["beats"] is False
