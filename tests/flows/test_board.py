"""A run of the graph inside a flow: each stage is a task run of Prefect, with its state, its lines and its time."""

import logging
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import LogFilter, LogFilterTaskRunId, TaskRunFilter, TaskRunFilterFlowRunId
from prefect.client.schemas.objects import TaskRun

from flows import dag
from flows.board import TaskRuns
from pipelines.core.errors import InputError

pytestmark = pytest.mark.slow


@pytest.fixture
def repository(checkout: Path) -> Path:
    subprocess.run([sys.executable, "-m", "dvc", "init", "-q", "--no-scm"], check=True)
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
        found = {}
        for each in client.read_task_runs(
            task_run_filter=TaskRunFilter(flow_run_id=TaskRunFilterFlowRunId(any_=[newest.id]))
        ):
            logs = client.read_logs(LogFilter(task_run_id=LogFilterTaskRunId(any_=[each.id])))
            found[each.name] = each, [log.message for log in logs]
        return found


@pytest.fixture
def lines_are_kept(caplog: pytest.LogCaptureFixture) -> None:
    """As in a worker: the command line alone keeps Prefect quiet."""
    caplog.set_level(logging.INFO, "prefect.task_runs")


@pytest.mark.usefixtures("lines_are_kept")
def test_each_stage_is_a_task_run(repository: Path) -> None:
    @flow(name="graph", flow_run_name="first")
    def graph() -> list[str]:
        return dag.reproduce(board=TaskRuns())

    with pytest.raises(InputError, match="b failed: this is b"):
        graph()
    found = shown("first")
    assert {name: run.state_name for name, (run, _) in found.items()} == {"a": "Completed", "b": "Failed"}
    until = time.monotonic() + 30
    while "this is a" not in (found := shown("first"))["a"][1] and time.monotonic() < until:
        time.sleep(0.5)  # lines are sent in batches
    assert "this is a" in found["a"][1]
    run, lines = found["b"]
    assert "this is b" in lines
    assert run.total_run_time.total_seconds() > 0.5

    stages = yaml.safe_load(Path("dvc.yaml").read_text())
    stages["stages"]["b"]["cmd"] = "echo b > b.txt"
    Path("dvc.yaml").write_text(yaml.safe_dump(stages))
    assert graph.with_options(flow_run_name="second")() == ["b", "c"]
    assert {name: run.state_name for name, (run, _) in shown("second").items()} == {"b": "Completed", "c": "Completed"}
