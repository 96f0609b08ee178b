"""`bertline up` and `down`: real servers, a real worker that runs a deployment, and nothing left behind."""

import os
import shutil
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import mlflow
import psutil
import pyarrow as pa
import pytest

from flows import services, settings
from flows.serve import free_port
from pipelines.core import tables
from pipelines.tracking import ledger, registry
from tests.support import tiny
from tests.support.places import CODE, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def environment(workspace: Path) -> Iterator[dict[str, str]]:
    """A workspace, and ports that nobody uses; whatever is still up at the end goes down."""
    shutil.copyfile(ROOT / "prefect.yaml", "prefect.yaml")
    variables = {
        **os.environ,
        "PREFECT_HOME": str(workspace / "state" / "prefect"),
        "PYTHONPATH": str(workspace),
        "BERTLINE_PREFECT_PORT": str(free_port()),
        "BERTLINE_MLFLOW_PORT": str(free_port()),
    }
    yield variables
    bertline(variables, "down")


def bertline(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "flows.cli", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_server_of_somebody_else_is_not_taken_for_ours(environment: dict[str, str]) -> None:
    with socket.socket() as theirs:
        theirs.bind(("127.0.0.1", int(environment["BERTLINE_MLFLOW_PORT"])))
        theirs.listen()
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", "up"], env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert "or name another port in BERTLINE_MLFLOW_PORT" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not any(settings.running(name) for name in services.SERVICES)


def test_a_deployment_runs_on_the_worker_and_down_stops_what_up_started(
    environment: dict[str, str], workspace: Path
) -> None:
    version = registry.register("headlines", tiny.classifier(workspace / "model"), CODE, "single", {"text": "犬"}, {})
    ledger.append("headlines", ledger.read("headlines"), "promote", version.version, "a test")
    mlflow.set_tracking_uri(None)
    texts = ["私は犬が好き。", "試合は延長の末に決着した"]
    rows = pa.table({"id": ["1", "2"], "text": texts})
    tables.write(workspace / "rows.parquet", rows.to_batches(), rows.schema)

    told = bertline(environment, "up")
    assert f"http://127.0.0.1:{environment['BERTLINE_PREFECT_PORT']}" in told
    processes = [settings.running(name) for name in ("prefect", "worker", "mlflow")]
    assert all(processes)
    assert bertline(environment, "up") == told
    assert [settings.running(name) for name in ("prefect", "worker", "mlflow")] == processes

    with urllib.request.urlopen(f"http://127.0.0.1:{environment['BERTLINE_MLFLOW_PORT']}/health", timeout=10) as answer:
        assert answer.status == 200
    options = ["--watch", "--param", "source=rows.parquet", "--param", "target=scored.parquet"]
    ran = subprocess.run(
        [Path(sys.executable).parent / "prefect", "deployment", "run", "score/file", *options],
        env={**environment, "PREFECT_API_URL": f"http://127.0.0.1:{environment['BERTLINE_PREFECT_PORT']}/api"},
        capture_output=True,
        text=True,
        check=False,
    )
    log = Path("state/logs/worker.log").read_text()
    assert ran.returncode == 0, ran.stdout + ran.stderr + log
    assert "Worker 'ProcessWorker" in log
    scored = tables.read(workspace / "scored.parquet")
    assert scored.column("text").to_pylist() == texts
    assert set(scored.column("model_version").to_pylist()) == {1}

    assert "stopped: worker, mlflow, prefect" in bertline(environment, "down")
    assert not any(process.is_running() for process in processes if isinstance(process, psutil.Process))
    assert "nothing of ours was running" in bertline(environment, "down")
