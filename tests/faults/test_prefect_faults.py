"""Prefect's server is killed during a run of the graph, a worker or a command with its flow run: nothing hangs."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import mlflow
import psutil
import pyarrow as pa
import pytest
import yaml
from dvc.repo import Repo
from prefect.client.orchestration import get_client
from prefect.client.schemas.actions import WorkPoolCreate

from flows.local import temporary_server
from pipelines.core import paths, schema, tables
from pipelines.core.errors import InputError
from pipelines.inference.predictor import Predictor
from pipelines.tracking import registry
from tests.conftest import PREFECT
from tests.support import commands, endings, full_disk, postgres, servers, stores, tiny
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900), postgres.needed]
STAGE = "until [ -e go ]; do touch begun; sleep 0.2; done; mkdir -p artifacts/models; cp -r model artifacts/models/tiny"
STAGES = {"finetune": {"foreach": {"tiny": {}}, "do": {"cmd": STAGE, "outs": ["artifacts/models/tiny"]}}}
FLOW = """
import os, pathlib, time
from prefect import flow

@flow
def wait(number: int = 0) -> None:
    pathlib.Path(f"begun-{number}").touch()
    while not pathlib.Path("go").exists():
        time.sleep(0.2)
"""
DEPLOYMENT = {"name": "one", "entrypoint": "waits.py:wait", "concurrency_limit": 1, "work_pool": {"name": "bertline"}}
PULL = [{"prefect.deployments.steps.set_working_directory": {"directory": "{{ $PWD }}"}}]


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[servers.Prefect]:
    """A Prefect server over PostgreSQL, set to check often for a free slot."""
    with ExitStack() as stack:
        database = stack.enter_context(postgres.postgres()).database("prefect", "asyncpg")
        often = {"PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS": "2"}
        yield stack.enter_context(servers.prefect(tmp_path_factory.mktemp("prefect"), database, **often))


@pytest.fixture
def server(running: servers.Prefect, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[servers.Prefect]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PREFECT_API_URL", running.api)
    monkeypatch.setenv("PREFECT_HOME", str(checkout / "home"))
    monkeypatch.setenv("PWD", str(checkout))  # prefect.yaml names it
    yield running
    mlflow.set_tracking_uri(None)


def post(server: servers.Prefect, path: str, **body: Any) -> Any:
    data = json.dumps(body).encode()
    request = urllib.request.Request(f"{server.api}/{path}", data, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.loads(answer.read() or b"null")


def states(server: servers.Prefect, flow: str) -> dict[str, str]:
    """Map the names of the flow's runs to their states."""
    runs = post(server, "flow_runs/filter", flows={"name": {"any_": [flow]}})
    return {run["name"]: run["state_name"] for run in runs}


@pytest.fixture
def graph(checkout: Path) -> None:
    """A graph of one stage, which waits for the file `go` and then copies a model folder."""
    Repo.init(no_scm=True).close()
    stores.place_in(checkout)
    Path("dvc.yaml").write_text(yaml.safe_dump({"stages": STAGES}))
    Path("params.yaml").write_text(tiny.PARAMS)
    tiny.classifier(checkout / "model")
    rows = pa.Table.from_pylist([{"id": "1", "text": "犬", "label": tiny.LABELS[0]}], schema.ROWS["single"])
    for split in ("train", "test"):
        tables.write(paths.rows("rows") / f"{split}.parquet", rows.to_batches(), rows.schema)
    tiny.TASK.with_(splits=("train", "test")).save(paths.rows("rows"))
    output = Predictor.load(checkout / "model").predict(rows)
    tables.write(paths.predictions("tiny") / "test.parquet", output.to_batches(), output.schema)


@pytest.mark.usefixtures("graph")
def test_a_retrain_outlives_its_server(server: servers.Prefect) -> None:
    retrain = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "retrain"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    try:
        servers.wait_until(lambda: Path("begun").exists() or retrain.poll() is not None, "the stage does not begin")
        server.kill()
        Path("go").touch()
        servers.wait_until(lambda: Path("dvc.lock").exists() or retrain.poll() is not None, "the stage does not end")
        server.start()
        output, _ = retrain.communicate(timeout=300)
    finally:
        retrain.kill()
    assert retrain.returncode == 0, output
    assert "tiny version 1 is the challenger" in output
    version = registry.get("tiny", "challenger")
    assert (registry.folder(version) / "model.safetensors").is_file()
    assert list(states(server, "retrain").values()) == ["Completed"]


@pytest.mark.usefixtures("graph")
@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_temporary_server_ends_with_its_flow(by: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C goes to the whole process group, other signals to one process."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.setenv("PREFECT_HOME", str(PREFECT))  # its database is created once for all tests
    run = subprocess.Popen(
        [sys.executable, "-m", "flows.cli", "retrain"], stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        servers.wait_until(lambda: Path("begun").exists() or run.poll() is not None, "the stage does not begin")
        children = psutil.Process(run.pid).children(recursive=True)
        assert any("uvicorn" in child.cmdline() for child in children)
        (os.killpg if by == signal.SIGINT else os.kill)(run.pid, by)
        output = run.communicate(timeout=45)[1]
    finally:
        run.kill()
    assert run.returncode == (130 if by == signal.SIGINT else -by), output
    assert by != signal.SIGINT or output.splitlines()[-1] == "bertline: interrupted"
    assert endings.alive_after(children, 10) == []


def test_a_worker_that_ends_with_its_run_gives_its_slot_back(server: servers.Prefect, checkout: Path) -> None:
    """Simulates a machine that goes down. The server restarts too, and must still know the lease."""
    Path("waits.py").write_text(FLOW)
    Path("prefect.yaml").write_text(yaml.safe_dump({"name": "t", "pull": PULL, "deployments": [DEPLOYMENT]}))
    with commands.using_prefect(server.api), get_client(sync_client=True) as client:
        client.create_work_pool(WorkPoolCreate(name="bertline", type="process"))
    prefect("--no-prompt", "deploy", "--all")
    (deployment,) = post(server, "deployments/filter")
    create = f"deployments/{deployment['id']}/create_flow_run"
    with servers.running(servers.Worker(checkout)) as worker:
        post(server, create, name="first", parameters={"number": 1})
        servers.wait_until(Path("begun-1").exists, "the first run does not begin")
        post(server, create, name="second", parameters={"number": 2})
        servers.wait_until(
            lambda: states(server, "wait")["second"] == "AwaitingConcurrencySlot", "the second run is not held back"
        )
        worker.kill()  # this kills its children too, one of which is the run
    (first,) = [run for run in post(server, "flow_runs/filter") if run["name"] == "first"]
    lease = first["state"]["state_details"]["deployment_concurrency_lease_id"]
    # a run renews its lease for five minutes; Prefect's minimum is one
    post(server, f"v2/concurrency_limits/leases/{lease}/renew", lease_duration=60)
    server.kill()
    server.start()
    with servers.running(servers.Worker(checkout)):
        servers.wait_until(Path("begun-2").exists, "the slot does not come free")
        Path("go").touch()
        servers.wait_until(lambda: states(server, "wait")["second"] == "Completed", "the second run does not end")
    assert states(server, "wait")["first"] == "Running"  # nothing has reported its end


def prefect(*arguments: str) -> None:
    done = subprocess.run([servers.BIN / "prefect", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_database_without_room_is_refused_before_prefect_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prefect would start its server again and again, for two minutes."""
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "prefect"))
    with (
        full_disk.largest_file(100_000),
        pytest.raises(InputError, match=r"/prefect: Prefect keeps its database there, and cannot \(File too large\)"),
    ):
        temporary_server.use()
    (tmp_path / "file").touch()
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "file/prefect"))
    with pytest.raises(InputError, match="make room, or set PREFECT_HOME"):
        temporary_server.use()
