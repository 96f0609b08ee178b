"""Stages placed on two Ray nodes of this machine: their results, and what remains if something is killed."""

import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from dvc.repo import Repo

from pipelines.graph import local_resources
from tests.support import forked, ray_nodes
from tests.support.forked import Forked
from tests.support.places import ROOT

pytestmark = pytest.mark.slow
Write = Callable[..., None]
# each stage prints when it begins, and its output is incomplete until its end; a kill has to end its `sleep`
SLOW = "echo {0} >> began; echo {0} > {0}.txt; sleep {1} & wait; echo whole >> {0}.txt"
WAITS = "echo {0} >> began; echo {0} > {0}.txt; until test -e go; do sleep 0.1; done; echo whole >> {0}.txt"
SLEEP = f"86.{os.getpid()}"  # no other process on this machine sleeps for this time


@pytest.fixture(scope="module")
def cluster() -> Iterator[ray_nodes.Cluster]:
    with pytest.MonkeyPatch.context() as patch:
        for name, value in ray_nodes.SETTINGS.items():
            patch.setenv(name, value)
        with ray_nodes.started() as started:
            yield started


@pytest.fixture
def second(cluster: ray_nodes.Cluster) -> Iterator[subprocess.Popen[bytes]]:
    """Another node, which joins while the test runs."""
    node = cluster.second()
    yield node
    if node.poll() is None:
        ray_nodes.kill(node)


@pytest.fixture
def graph(checkout: Path) -> Write:
    """A function that writes dvc.yaml and params.yaml of a new repository."""
    Repo.init(no_scm=True).close()

    def write(commands: dict[str, str], resources: dict[str, Any], **deps: str) -> None:
        stages = {
            name: {"cmd": command, "outs": [f"{name}.txt"]} | ({"deps": [f"{deps[name]}.txt"]} if name in deps else {})
            for name, command in commands.items()
        }
        Path("dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
        Path("params.yaml").write_text(yaml.safe_dump({"resources": resources}))

    return write


class Run:
    """A process of `bertline run`, and the lines that it prints."""

    def __init__(self, process: Forked) -> None:
        self.process = process

    @property
    def lines(self) -> list[str]:
        return self.process.said().split("\n")[:-1]

    def until(self, line: str) -> str:
        """Wait for a line that begins with `line`, and return it."""
        self.process.until(lambda: self._line(line))
        return self._line(line)

    def _line(self, line: str) -> str:
        return next((printed for printed in self.lines if printed.startswith(line)), "")

    def end(self) -> int:
        return self.process.wait()


@contextmanager
def running(address: str, *words: str) -> Iterator[Run]:
    environment = ray_nodes.SETTINGS | {"PYTHONPATH": str(ROOT), "RAY_ADDRESS": address, "BERTLINE_QUIET": ""}
    with forked.started("flows.cli", "run", *words, **environment) as process:
        yield Run(process)


def finish(address: str, *words: str) -> list[str]:
    """Run to the end; returns the lines that the run printed."""
    with running(address, *words) as run:
        assert run.end() == 0, run.lines
        return run.lines


def sleepers() -> list[psutil.Process]:
    """The `sleep` processes of stages that still run."""
    processes = []
    for process in psutil.process_iter():
        try:
            if process.cmdline() == ["sleep", SLEEP]:
                processes.append(process)
        except psutil.Error:
            continue
    return processes


def starts(lines: list[str]) -> list[str]:
    """The lines of a run about started stages, without addresses and earlier times."""
    lines_of_starts = [line.partition(",")[0] for line in lines if ": starts" in line]
    return [re.sub(r"starts on [\d.]+", "starts on NODE", line) for line in lines_of_starts]


def wait_for(what: Callable[[], object], seconds: float = 60) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.2)


def forget() -> None:
    """Remove the results of earlier runs."""
    for path in ("dvc.lock", ".dvc/cache", "state", "artifacts"):
        shutil.rmtree(path) if Path(path).is_dir() else Path(path).unlink(missing_ok=True)


def test_stages_of_the_project_leave_the_same_lock_wherever_they_run(
    cluster: ray_nodes.Cluster, workspace: Path
) -> None:
    Repo.init(no_scm=True).close()
    params = yaml.safe_load(Path("params.yaml").read_text())

    def prepared(resources: dict[str, Any]) -> tuple[list[str], bytes]:
        forget()
        Path("params.yaml").write_text(yaml.safe_dump({**params, "resources": resources}))
        return finish(cluster.address, "prepare@headlines"), Path("dvc.lock").read_bytes()

    here = {"prepare": {"placement": "here"}}
    lines, one_there = prepared({"threads": 1, "stages": {"prepare": {"placement": "ray"}}})
    log = Path("state/logs/prepare@headlines.log").read_text().splitlines()
    assert log
    assert [line for line in lines if " | " in line][-len(log) :] == [f"prepare@headlines | {line}" for line in log]
    assert starts(lines) == ["ingest@livedoor-samples: starts", "prepare@headlines: starts on NODE"]
    lines, other_there = prepared({"threads": 1, "placement": "ray", "stages": here})
    assert starts(lines) == ["ingest@livedoor-samples: starts on NODE", "prepare@headlines: starts"]
    assert one_there == other_there, "each stage has run in both places"


def test_a_node_dies_and_its_stage_runs_again_elsewhere(
    cluster: ray_nodes.Cluster, second: subprocess.Popen[bytes], graph: Write
) -> None:
    commands = {"a": WAITS.format("a"), "b": WAITS.format("b"), "c": "cat a.txt > c.txt; echo $DVC_STAGE >> c.txt"}
    graph(commands, {"threads": 1}, c="a")
    Path("go").touch()
    finish(cluster.address)
    unbroken = {name: Path(name).read_bytes() for name in ("dvc.lock", "a.txt", "b.txt", "c.txt")}
    forget()
    for name in ("began", "go"):
        Path(name).unlink()
    graph(commands, {"threads": 1, "placement": "ray"}, c="a")
    with running(cluster.address) as run:
        run.until("a: starts on")
        run.until("b: starts on")  # a node has one CPU, so they run on both
        there = next(line[0] for line in run.lines if line.endswith(f"starts on {ray_nodes.SECOND}"))
        wait_for(lambda: Path("began").exists() and there in Path("began").read_text())
        ray_nodes.kill(second)
        # Ray may notice the dead process before the dead node
        assert f"the node {ray_nodes.SECOND} died) after" in run.until(f"{there}: lost (")
        Path("go").touch()
        assert run.end() == 0
    assert f"{there}: waits for another node" in run.lines
    assert sum(line.startswith(f"{there}: starts on") for line in run.lines) == 2
    assert sorted(Path("began").read_text().split()) == sorted(["a", "b", there])
    assert {name: Path(name).read_bytes() for name in unbroken} == unbroken


@pytest.mark.parametrize("who", ["Ray's worker", "what attends the command"])
def test_a_killed_process_between_executor_and_stage_is_reported(
    cluster: ray_nodes.Cluster, graph: Write, who: str
) -> None:
    graph({"a": SLOW.format("a", SLEEP)}, {"threads": 1, "placement": "ray", "max_failures": 0})
    with running(cluster.address) as run:
        run.until("a: starts on")
        wait_for(sleepers)
        above = sleepers()[0].parents()
        attends = next(process for process in above if "pipelines.graph.on_ray.node_command" in process.cmdline())
        worker = next(process for process in above if "ray::Place" in " ".join(process.cmdline()))
        (worker if who == "Ray's worker" else attends).kill()
        assert run.end() == 1
    sentence = run.lines[-1]
    wait_for(lambda: not sleepers())
    if who == "Ray's worker":
        assert sentence.startswith("bertline: error: a failed: its process on the node ")
        assert sentence.endswith(" died; lost 1 times, more than resources.max_failures")
    else:
        assert sentence.startswith("bertline: error: a failed: killed by signal 9")


@pytest.mark.parametrize("who", ["the executor", "the executor and Ray's driver", "Ctrl-C"])
def test_no_stage_outlives_its_executor(cluster: ray_nodes.Cluster, graph: Write, who: str) -> None:
    slow, quick = SLOW.format("a", SLEEP), SLOW.format("a", 0)
    graph({"a": slow, "b": "echo b > b.txt"}, {"threads": 1, "placement": "ray"})
    with running(cluster.address, "a") as run:
        run.until("a: starts on")
        wait_for(sleepers)
        if who == "Ctrl-C":
            os.kill(run.process.pid, signal.SIGINT)
            assert run.end() == 130
            assert run.lines[-1] == "bertline: interrupted"
            assert not sleepers()
        else:
            children = psutil.Process(run.process.pid).children()
            driver = [process for process in children if "driver.main" in " ".join(process.cmdline())]
            assert len(driver) == 1
            for process in [run.process, *(driver if "driver" in who else [])]:
                process.kill()
    graph({"a": quick, "b": "echo b > b.txt"}, {"threads": 1, "placement": "ray"})
    finish(cluster.address)  # at once: the run waits until leftover stages have ended
    assert not sleepers()
    assert Path("a.txt").read_text() == "a\nwhole\n"
    assert Path("began").read_text() == "a\na\n"


def test_a_stage_that_no_node_can_run_fails_in_one_sentence(cluster: ray_nodes.Cluster, graph: Write) -> None:
    waits = {"a": {"threads": 64}, "b": {"gpus": 1}}
    commands = {name: SLOW.format(name, 0) for name in ("a", "b", "c")}
    graph(commands, {"threads": 1, "placement": "ray", "stages": waits})
    with running(cluster.address, "--keep-going") as run:
        assert run.end() == 1
    assert (
        "a failed: it requires 64 CPUs (resources.threads), and no node of the Ray cluster has more than 1"
        in (run.lines[-1])
    )
    assert "b failed: it requires 1 GPUs (resources.gpus), and no node of the Ray cluster has any" in run.lines[-1]
    assert Path("c.txt").read_text() == "c\nwhole\n"


def test_after_a_failure_a_stage_without_a_place_is_not_started(cluster: ray_nodes.Cluster, graph: Write) -> None:
    fails = {"a": "sleep 3; echo the disk is gone; exit 4", "b": SLOW.format("b", 0)}
    graph(fails, {"threads": 1, "placement": "ray"})
    Path("state/run").mkdir(parents=True)
    Path("state/run/seconds.json").write_text('{"a": 9, "b": 1}')  # so `a` starts first; there is one CPU
    with running(cluster.address) as run:
        assert run.end() == 1
    log = "state/logs/a.log"
    assert run.lines[-1] == f"bertline: error: a failed: the disk is gone (exit status 4; {log}); not started: b"
    assert not Path("began").exists()


JOINS = """
import os
from pathlib import Path
from pipelines.training import workers
assert workers.address() != "local"
workers.start()
import ray
assert ray.get(ray.remote(lambda: os.getpid()).remote()) != os.getpid()
Path("a.txt").write_text(f"{ray.cluster_resources()['CPU']:.0f}")
"""


@pytest.mark.parametrize("where", ["a cluster", "a Ray that is started here"])
def test_a_placed_stage_with_workers_joins_the_cluster_it_is_placed_on(
    cluster: ray_nodes.Cluster, graph: Write, where: str
) -> None:
    """The stage itself reserves no CPU; otherwise its worker would wait for ever on a node with one CPU."""
    Path("join.py").write_text(JOINS)
    graph({"a": "python join.py 2>&1"}, {"threads": 1, "placement": "ray", "workers": 1})
    finish(cluster.address if where == "a cluster" else "")
    assert Path("a.txt").read_text() == ("1" if where == "a cluster" else str(local_resources.cores()))
