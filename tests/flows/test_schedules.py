"""A deployment with a cron: Prefect's server makes its next runs by itself, on SQLite and on PostgreSQL."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate

from tests.support import commands, postgres, servers

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
FLOW = """
from prefect import flow

@flow
def rest() -> None:
    pass
"""
DEPLOYMENT = {
    "name": "weekly",
    "entrypoint": "rests.py:rest",
    "schedules": [{"cron": "0 18 * * 0"}],
    "work_pool": {"name": "bertline"},
    "concurrency_limit": {"limit": 1, "collision_strategy": "CANCEL_NEW"},
}
PULL = [{"prefect.deployments.steps.set_working_directory": {"directory": "{{ $PWD }}"}}]
OFTEN = {"PREFECT_SERVER_SERVICES_SCHEDULER_LOOP_SECONDS": "2"}


@pytest.fixture
def server(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[servers.Prefect]:
    """Prefect, which looks often for what is to be scheduled."""
    with ExitStack() as stack:
        database = f"sqlite+aiosqlite:///{checkout}/prefect.db"
        if request.param == "postgres":
            database = stack.enter_context(postgres.postgres()).database("prefect", "asyncpg")
        running = stack.enter_context(servers.prefect(checkout / "prefect", database, **OFTEN))
        monkeypatch.setenv("PREFECT_API_URL", running.api)
        monkeypatch.setenv("PREFECT_HOME", str(checkout / "home"))
        monkeypatch.setenv("PWD", str(checkout))  # prefect.yaml names it
        yield running


def scheduled(server: servers.Prefect) -> list[dict[str, Any]]:
    """The runs that the server has planned."""
    request = urllib.request.Request(
        f"{server.api}/flow_runs/filter", b"{}", {"Content-Type": "application/json"}, method="POST"
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return [run for run in json.loads(answer.read()) if run["auto_scheduled"]]


@pytest.mark.parametrize("server", ["sqlite", pytest.param("postgres", marks=postgres.needed)], indirect=True)
def test_a_cron_schedule_starts_runs(server: servers.Prefect) -> None:
    Path("rests.py").write_text(FLOW)
    Path("prefect.yaml").write_text(yaml.safe_dump({"name": "t", "pull": PULL, "deployments": [DEPLOYMENT]}))
    with commands.using_prefect(server.api), get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="bertline", type="process"))
    deploy = [servers.BIN / "prefect", "--no-prompt", "deploy", "--all"]
    done = subprocess.run(deploy, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with commands.using_prefect(server.api), get_client(sync_client=True) as client:
        deployment = client.read_deployment_by_name("rest/weekly")
    assert deployment.global_concurrency_limit
    assert deployment.global_concurrency_limit.limit == 1
    assert deployment.concurrency_options
    assert deployment.concurrency_options.collision_strategy == "CANCEL_NEW"
    servers.wait_until(lambda: len(scheduled(server)) > 1, "no run is planned")
    assert all(run["expected_start_time"][11:16] == "18:00" for run in scheduled(server))
