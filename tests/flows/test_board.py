"""A run of the graph inside a flow: each stage is a task run of Prefect, with its state, its lines and its time."""

import logging
import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml
from dvc.repo import Repo
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import LogFilter, LogFilterTaskRunId, TaskRunFilter, TaskRunFilterFlowRunId
from prefect.client.schemas.objects import TaskRun

from flows.stage_task_runs import TaskRuns
from pipelines.core.errors import InputError
from pipelines.graph import executor
from tests.support import endings
from tests.support.places import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def repository(checkout: Path) -> Path:
    Repo.init(no_scm=True).close()
    stages = {
        "a": {"cmd": "echo this is a; echo a > a.txt", "outs": ["a.txt"]},
        "b": {"cmd": "echo this is b; sleep 1; exit 3", "deps": ["a.txt"], "outs": ["b.txt"]},
        "c": {"cmd": "echo this is c; cat b.txt > c.txt", "deps": ["b.txt"], "outs": ["c.txt"]},
    }
    (checkout / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    (checkout / "params.yaml").write_text("resources: {threads: 1}\n")
    return checkout


def shown(name: str) -> dict[str, tuple[TaskRun, list[str]]]:
    """The task runs of the last run of a flow, with the lines that each logged."""
    with get_client(sync_client=True) as client:
        (newest,) = client.read_flow_runs(sort="START_TIME_DESC", limit=1)
        assert newest.name == name
        runs = {}
        for run in client.read_task_runs(
            task_run_filter=TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[newest.id]))
        ):
            logs = client.read_logs(LogFilter(task_run_id=LogFilterTaskRunId(any_=[run.id])))
            runs[run.name] = run, [log.message for log in logs]
        return runs


@pytest.fixture
def lines_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    """As in a worker: the command line alone keeps Prefect quiet."""
    caplog.set_level(logging.INFO, "prefect.task_runs")


@pytest.mark.usefixtures("lines_are_kept")
def test_each_stage_is_a_task_run(repository: Path) -> None:
    @flow(name="graph", flow_run_name="first")
    def graph() -> list[str]:
        return executor.run([], board=TaskRuns())

    with pytest.raises(InputError, match="b failed: this is b"):
        graph()
    runs = shown("first")
    assert {name: run.state_name for name, (run, _) in runs.items()} == {"a": "Completed", "b": "Failed"}
    until = time.monotonic() + 30
    while any(f"this is {name}" not in runs[name][1] for name in "ab") and time.monotonic() < until:
        time.sleep(0.5)  # lines are sent in batches
        runs = shown("first")
    assert "this is a" in runs["a"][1]
    run, lines = runs["b"]
    assert "this is b" in lines
    assert run.total_run_time.total_seconds() > 0.5

    stages = yaml.safe_load(Path("dvc.yaml").read_text())
    stages["stages"]["b"]["cmd"] = "echo b > b.txt"
    Path("dvc.yaml").write_text(yaml.safe_dump(stages))
    assert graph.with_options(flow_run_name="second")() == ["b", "c"]
    assert {name: run.state_name for name, (run, _) in shown("second").items()} == {"b": "Completed", "c": "Completed"}


CANCELLED = """
from flows.local import prefect_settings
prefect_settings.use_local_state()
from prefect import flow
from flows.stage_task_runs import TaskRuns
from pipelines.graph import executor

@flow(name="graph")
def graph():
    executor.run([], board=TaskRuns())

graph()
"""


def test_a_cancelled_run_ends_its_stage_and_the_next_goes_on(repository: Path) -> None:
    """As a worker cancels: SIGTERM to the process of the flow run."""
    stages = {
        "a": {"cmd": "echo a > a.txt", "outs": ["a.txt"]},
        "b": {"cmd": "echo $$ > pid; cat wait; echo b > b.txt", "deps": ["a.txt"], "outs": ["b.txt"]},
    }
    (repository / "dvc.yaml").write_text(yaml.safe_dump({"stages": stages}))
    os.mkfifo("wait")
    with get_client(sync_client=True) as client:  # of the server of these tests
        environment = os.environ | {"PYTHONPATH": str(ROOT), "PREFECT_API_URL": str(client.api_url)}
    with subprocess.Popen([sys.executable, "-c", CANCELLED], env=environment) as run:
        try:
            until = time.monotonic() + 120
            while not (Path("pid").exists() and Path("pid").read_text()):
                assert run.poll() is None
                assert time.monotonic() < until
                time.sleep(0.05)
            stage = psutil.Process(int(Path("pid").read_text()))
            run.terminate()
            run.wait(60)
        finally:
            run.kill()
    assert run.returncode
    assert endings.alive_after([stage], 10) == []
    assert not Path("b.txt").exists()
    os.remove("wait")
    Path("wait").touch()
    assert executor.run([]) == ["b"]
