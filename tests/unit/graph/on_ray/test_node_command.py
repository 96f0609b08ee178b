"""A command that is attended: its status, its environment, and its end when whoever asked for it ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from pipelines.core.errors import InputError
from pipelines.graph.forkserver import Command
from pipelines.graph.on_ray import node_command
from pipelines.training.workers import LOOPBACK
from tests.support import endings
from tests.support.places import ROOT

ASKS = """
import sys
from pipelines.graph.on_ray import node_command
from pipelines.graph.forkserver import Command
line, folder = sys.argv[1:]
node_command.run(Command("a", line, folder, f"{folder}/log", (), {"PATH": "/usr/bin:/bin"}))
"""


@pytest.fixture
def place(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (checkout / "log").touch()
    return checkout


def command(line: str, place: Path, **environment: str) -> Command:
    return Command("a", line, str(place), str(place / "log"), (), {"PATH": os.environ["PATH"], **environment})


def test_status_and_output_are_the_commands(place: Path) -> None:
    assert node_command.run(command("echo $GIVEN; echo to stderr >&2; exit 7", place, GIVEN="told")) == 7
    assert (place / "log").read_text() == "told\nto stderr\n"
    assert node_command.run(command("kill -15 $$", place)) == -15
    assert node_command.run(command("python -m this", place)) == 0
    assert "Beautiful is better than ugly." in (place / "log").read_text()


def test_children_of_a_failed_command_are_ended(place: Path) -> None:
    assert node_command.run(command("sleep 87.1 & echo $!; exit 1", place)) == 1
    assert ended(int((place / "log").read_text()))


def test_a_log_that_is_not_there_is_no_shared_checkout(place: Path) -> None:
    (place / "log").unlink()
    with pytest.raises(InputError, match=r"No such file or directory: '.*/log' \(on "):
        node_command.run(command("touch never", place))
    assert not (place / "never").exists()


@pytest.mark.parametrize("line", ["sleep 87.2 & wait", "trap '' INT; sleep 87.2 & wait; wait"])
def test_the_command_ends_with_whoever_asked_for_it(place: Path, line: str) -> None:
    asks = subprocess.Popen([sys.executable, "-c", ASKS, f"echo $$; {line}", str(place)])
    while not (place / "log").read_text():
        assert asks.poll() is None
        time.sleep(0.01)
    shell = psutil.Process(int((place / "log").read_text()))
    while not (sleeps := shell.children()):
        time.sleep(0.01)
    assert node_command.holder("a").startswith("process ")
    asks.kill()
    asks.wait()
    node_command.wait_for(["a"], 10)
    assert all(ended(process.pid) for process in (shell, *sleeps))
    assert node_command.holder("a") == ""


def test_a_stage_that_does_not_end_is_named(place: Path) -> None:
    asks = subprocess.Popen([sys.executable, "-c", ASKS, "echo begun; sleep 87.3", str(place)])
    while not (place / "log").read_text():
        assert asks.poll() is None
        time.sleep(0.01)
    with pytest.raises(InputError, match=r"a: an earlier run of it still runs, as process \d+ on .*; stop it there"):
        node_command.wait_for(["b", "a"], 0.1)
    asks.send_signal(signal.SIGKILL)
    asks.wait()
    node_command.wait_for(["a"], 10)


def test_the_environment_is_the_nodes_without_what_ray_set() -> None:
    variables = {
        "HOME": "/root",
        "RAY_JOB_ID": "1",
        "RAY_AUTH_MODE": "token",
        LOOPBACK: "0",
        "CUDA_VISIBLE_DEVICES": "0,1",
        "PATH": "/bin",
    }
    environment = node_command.environment(variables, {"HF_HUB_OFFLINE": "1"}, 2, 0, "")
    assert "RAY_JOB_ID" not in environment
    assert environment[LOOPBACK] == "0"  # without it a Ray that listens on 127.0.0.1 alone is not found
    assert environment["OMP_NUM_THREADS"] == environment["RAYON_NUM_THREADS"] == "2"
    assert environment["PATH"].endswith(":/bin")
    assert (environment["HOME"], environment["HF_HUB_OFFLINE"], environment["RAY_AUTH_MODE"]) == ("/root", "1", "token")
    assert environment["CUDA_VISIBLE_DEVICES"] == ""  # torch would take a GPU that nobody lent
    assert "RAY_ADDRESS" not in environment
    lent = node_command.environment(variables, {}, 0, 2, "head:6379")
    assert (lent["CUDA_VISIBLE_DEVICES"], lent["RAY_ADDRESS"]) == ("0,1", "head:6379")
    assert "OMP_NUM_THREADS" not in lent


def ended(pid: int) -> bool:
    try:
        return endings.alive_after([psutil.Process(pid)], 5) == []
    except psutil.NoSuchProcess:
        return True
