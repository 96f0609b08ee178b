"""`bertline up` and `down`: real servers, a real worker that runs a project's deployments, and nothing left behind."""

import base64
import json
import os
import socket
import subprocess
import sys
import urllib.request
import uuid
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import mlflow
import psutil
import pyarrow as pa
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Subprotocol

from flows.local import prefect_api, prefect_key, prefect_settings
from flows.local import servers as local_servers
from pipelines.core import tables
from pipelines.core.errors import InputError
from pipelines.core.ports import free_port
from pipelines.graph import new_project
from pipelines.tracking import ledger, registry
from tests.support import servers, stores, tiny
from tests.support.places import CODE, ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


EMPTY = "".join(
    f"{section}: {{}}\n"
    for section in ("ingest", "build_vocab", "import_weights", "pretrain", "compress", "baseline", "export")
)
ENTRIES = (
    EMPTY
    + """
prepare:
  headlines:
    corpus: custom
    source: own
    files: {train: rows.csv, test: later.csv}
    columns: {text: text, label: label}
encode:
  headlines: {task: headlines, vocab: encoders/mini-ja, max_length: 16}
finetune:
  headlines: {data: headlines, encoder: encoders/mini-ja}
promote:
  headlines: {run: headlines}
evaluate:
  headlines: {task: headlines}
score:
  daily: {model: headlines, source: "in/{window}.parquet", target: "out/{window}.parquet", since: "2026-11-01"}
schedule:
  saturdays: {flow: retrain, model: headlines, cron: "0 3 * * 6", timezone: Asia/Tokyo}
"""
)


@pytest.fixture
def environment(checkout: Path) -> Iterator[dict[str, str]]:
    """Ports that nobody uses; whatever is still up at the end goes down."""
    variables = {
        **os.environ,
        "PREFECT_HOME": str(checkout / "state" / "prefect"),
        "BERTLINE_PREFECT_PORT": str(free_port()),
        "BERTLINE_MLFLOW_PORT": str(free_port()),
        "http_proxy": "http://127.0.0.1:9",  # where nothing listens: no call to this machine may go there
    }
    yield variables
    bertline(variables, "down")


@pytest.fixture
def project(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of `bertline init` with entries of its own and a champion; it has no code and no prefect.yaml."""
    folder = checkout / "own"
    assert list(new_project.create(folder, checkout / "own.remote"))
    monkeypatch.chdir(folder)
    stores.place_in(folder)
    Path("params.yaml").write_text(ENTRIES)
    Path("own").mkdir()
    for file in ("rows.csv", "later.csv"):
        Path("own", file).write_text(f"text,label\n{file}で勝った,good\n{file}で負けた,bad\n")
    version = registry.register("headlines", tiny.classifier(checkout / "model"), CODE, "single", {"text": "犬"}, {})
    ledger.append("headlines", ledger.read("headlines"), "promote", version.version, "a test")
    mlflow.set_tracking_uri(None)
    return folder


def bertline(environment: dict[str, str], *arguments: str) -> str:
    command = [sys.executable, "-m", "flows.cli", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_a_port_in_use_by_another_server_is_reported(environment: dict[str, str]) -> None:
    with socket.socket() as theirs:
        theirs.bind(("127.0.0.1", int(environment["BERTLINE_MLFLOW_PORT"])))
        theirs.listen()
        done = subprocess.run(
            [sys.executable, "-m", "flows.cli", "up"], env=environment, capture_output=True, text=True, check=False
        )
    assert done.returncode == 1
    assert "or name another port in BERTLINE_MLFLOW_PORT" in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not any(prefect_settings.running(name) for name in local_servers.SERVICES)


def sent(port: int, request: str, body: str = "", **headers: str) -> tuple[int, str]:
    """The status of a raw request, and all that came back."""
    named = {"Host": f"127.0.0.1:{port}", "Connection": "close", "Content-Type": "application/json", **headers}
    lines = [f"{request} HTTP/1.1", *(f"{name}: {value}" for name, value in named.items())]
    with socket.create_connection(("127.0.0.1", port), 60) as client:
        client.sendall("\r\n".join([*lines, f"Content-Length: {len(body)}", "", body]).encode())
        answer = b""
        while part := client.recv(65536):
            answer += part
    return int(answer.split()[1]), answer.decode()


# a deployment whose first step is a command
ATTACK = {
    "name": "attack",
    "flow_id": str(uuid.uuid4()),
    "work_pool_name": "bertline",
    "pull_steps": [{"prefect.deployments.steps.run_shell_script": {"script": "touch attacked"}}],
}


def check_that_prefect_is_closed(port: int) -> None:
    """What ran a command before: requests without a key, from a page of another site, under another name."""
    key = Path("state/prefect.key")
    assert key.stat().st_mode & 0o777 == 0o600
    basic = f"Basic {base64.b64encode(key.read_bytes()).decode()}"
    wrong = f"Basic {base64.b64encode(b'bertline:guess').decode()}"
    flow = ("POST /api/flows/", json.dumps({"name": "attack"}))
    for headers in ({}, {"Authorization": wrong}, {"Authorization": "Bearer x"}):
        assert sent(port, *flow, **headers)[0] == 401
        assert sent(port, "POST /api/deployments/filter", "{}", **headers)[0] == 401
        assert sent(port, "POST /api/deployments/", json.dumps(ATTACK), **headers)[0] == 401
    for host in ("attacker.example", f"attacker.example:{port}", ""):
        assert sent(port, *flow, Host=host, Authorization=basic)[0] == 400
    theirs = {"Origin": "http://attacker.example", "Authorization": basic}
    status, answer = sent(port, "POST /api/deployments/filter", "{}", **theirs)
    assert (status, "access-control-allow-origin" in answer.lower()) == (200, False)
    preflight = theirs | {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    assert sent(port, "OPTIONS /api/deployments/filter", **preflight)[0] == 400
    ours = f"http://localhost:{port}"
    _, answer = sent(port, "POST /api/deployments/filter", "{}", Origin=ours, Authorization=basic)
    assert f"access-control-allow-origin: {ours}" in answer.lower()
    assert sent(port, "GET /")[0] == 200, "its pages, which ask for the key"
    assert [sent(port, f"GET /api/{path}")[0] for path in ("health", "ready")] == [200, 200]
    for path in Path("state/logs").iterdir():
        assert key.read_text() not in path.read_text(errors="replace")


def check_that_its_sockets_are_closed(port: int) -> None:
    """An event that is sent in begins a retraining, and those that are sent out name all runs."""
    key = Path("state/prefect.key").read_text()
    for path in ("events/in", "events/out", "logs/out", "work_pools/bertline/workers/connect"):
        address = f"ws://127.0.0.1:{port}/api/{path}"
        with pytest.raises(InvalidStatus, match="403"):
            connect(address)
        for token, answers in (("bertline:guess", False), (key, True)):
            with connect(address, subprotocols=[Subprotocol("prefect")]) as opened:
                opened.send(json.dumps({"type": "auth", "token": token}))
                with nullcontext() if answers else pytest.raises(ConnectionClosed):
                    assert json.loads(opened.recv(60)) == {"type": "auth_success"}


def check_that_mlflow_knows_its_names(port: int) -> None:
    """It has no key; a page of another site still reaches nothing."""
    search = ("POST /api/2.0/mlflow/registered-models/create", '{"name": "attack"}')
    assert sent(port, *search, Host="attacker.example")[0] == 403
    assert sent(port, *search, Origin="http://attacker.example")[0] == 403
    _, listed = sent(port, "GET /api/2.0/mlflow/registered-models/search")
    assert "headlines" in listed
    assert "attack" not in listed


def test_the_key_is_made_once_and_refused_where_others_may_read_it(checkout: Path) -> None:
    key = prefect_key.read_or_make()
    assert len(key) > 40
    assert prefect_key.read_or_make() == prefect_key.read() == key
    assert [file.name for file in Path("state").glob("prefect*")] == ["prefect.key"]
    prefect_key.FILE.chmod(0o644)
    with pytest.raises(InputError, match="other users can read it"):
        prefect_key.read_or_make()


def test_no_command_line_has_the_stores_address(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "postgresql://me:planted@127.0.0.1:9/x")
    commands: dict[str, list[str]] = {}
    monkeypatch.setattr(local_servers, "_start", lambda name, command, health: commands.update({name: command}))
    monkeypatch.setattr(local_servers.prefect_registration, "register", lambda deployed, environment: None)
    local_servers._start_all(Path("prefect.yaml"), {"prefect": 4200, "mlflow": 5000})
    assert "mlflow" in commands
    assert "planted" not in str(commands)
    assert local_servers._with_key("mlflow")["MLFLOW_BACKEND_STORE_URI"] == os.environ["MLFLOW_TRACKING_URI"]


def test_no_other_server_is_given_the_key(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    prefect_key.read_or_make()
    prefect_settings.PIDS.mkdir()
    server = {"pid": os.getpid(), "began": prefect_settings.began(os.getpid()), "address": "http://127.0.0.1:9/api"}
    (prefect_settings.PIDS / "prefect").write_text(json.dumps(server))
    monkeypatch.setenv("PREFECT_API_URL", "http://127.0.0.1:10/api")
    monkeypatch.setenv("PREFECT_API_AUTH_STRING", "")  # so that it is as before afterwards
    del os.environ["PREFECT_API_AUTH_STRING"]
    prefect_settings.use_running_server()
    assert "PREFECT_API_AUTH_STRING" not in os.environ
    monkeypatch.setenv("PREFECT_API_URL", server["address"])
    prefect_settings.use_running_server()
    assert os.environ["PREFECT_API_AUTH_STRING"] == prefect_key.read()


def test_a_projects_deployments_run_on_the_worker_and_down_stops_what_up_started(
    project: Path, environment: dict[str, str]
) -> None:
    texts, yesterday = ["私は犬が好き。", "試合は延長の末に決着した"], datetime.now(UTC).date() - timedelta(days=1)
    rows = pa.table({"id": ["1", "2"], "text": texts})
    for file in ("rows", f"in/{yesterday}"):
        tables.write(Path(f"{file}.parquet"), rows.to_batches(), rows.schema)

    output = bertline(environment, "up")
    assert f"http://127.0.0.1:{environment['BERTLINE_PREFECT_PORT']}" in output
    processes = [prefect_settings.running(name) for name in ("prefect", "worker", "mlflow")]
    assert all(processes)
    assert schedules(environment)["retrain/saturdays"] == [("0 3 * * 6", "Asia/Tokyo")]
    assert schedules(environment)["score-windows/daily"] == [("0 1 * * *", None)], "UTC"
    Path("params.yaml").write_text(ENTRIES.replace("saturdays", "weekly").replace("daily", "hours"))
    assert bertline(environment, "up") == output
    assert [prefect_settings.running(name) for name in ("prefect", "worker", "mlflow")] == processes
    assert not {"retrain/saturdays", "score-windows/daily"} & {*schedules(environment)}, "their entries are gone"
    assert schedules(environment)["retrain/weekly"] == [("0 3 * * 6", "Asia/Tokyo")], "instead of prefect.yaml's"

    with urllib.request.urlopen(f"http://127.0.0.1:{environment['BERTLINE_MLFLOW_PORT']}/health", timeout=10) as answer:
        assert answer.status == 200
    check_that_prefect_is_closed(int(environment["BERTLINE_PREFECT_PORT"]))
    check_that_its_sockets_are_closed(int(environment["BERTLINE_PREFECT_PORT"]))
    check_that_mlflow_knows_its_names(int(environment["BERTLINE_MLFLOW_PORT"]))
    retraining = bertline(environment, "trigger", "retrain/weekly", "--param", 'names=["headlines"]')
    assert ": requested the run " in bertline(environment, "trigger", "score/file", "--param", "source=rows.parquet")
    assert '"run": "' in bertline(environment, "trigger", "score-windows/hours", "--json")
    for file in ("state/scored/file.parquet", f"out/{yesterday}.parquet"):
        servers.wait_until(Path(file).exists, "the worker has not run it")
        scored = tables.read(Path(file))
        assert scored.column("text").to_pylist() == texts
        assert set(scored.column("model_version").to_pylist()) == {1}
    assert "Worker 'ProcessWorker" in Path("state/logs/worker.log").read_text()
    check_that_it_retrains(retraining, int(environment["BERTLINE_PREFECT_PORT"]))
    check_prefects_own_commands(environment)

    assert "stopped: worker, mlflow, prefect" in bertline(environment, "down")
    assert not any(process.is_running() for process in processes if isinstance(process, psutil.Process))
    assert '"stopped": []' in bertline(environment, "down", "--json")
    assert not working_in(project), "the retraining has ended too"


def schedules(environment: dict[str, str]) -> dict[str, list[tuple[str, str | None]]]:
    """The cron and the time zone of each deployment that Prefect's server has, by FLOW/NAME."""
    api, key = f"http://127.0.0.1:{environment['BERTLINE_PREFECT_PORT']}/api", prefect_key.read()
    times = {
        (one["entrypoint"], one["name"]): [
            (planned["schedule"]["cron"], planned["schedule"]["timezone"]) for planned in one["schedules"]
        ]
        for one in prefect_api.send("POST", f"{api}/deployments/filter", {}, key)
    }
    return {f"{flow.rpartition('.')[2].replace('_', '-')}/{name}": planned for (flow, name), planned in times.items()}


def check_prefects_own_commands(environment: dict[str, str]) -> None:
    """The commands of docs/scheduling.md reach this server, and leave nothing in the home folder."""
    page = (ROOT / "docs/scheduling.md").read_text().replace("4200", environment["BERTLINE_PREFECT_PORT"])
    (block,) = (block for block in page.split("```") if "export PREFECT_API_URL" in block)
    home = Path("home")
    home.mkdir()
    fresh = {name: value for name, value in environment.items() if not name.startswith(("PREFECT_", "http_proxy"))}
    fresh |= {"HOME": str(home.resolve()), "PATH": f"{servers.BIN}:{environment['PATH']}"}
    command = ["bash", "-ec", block.removeprefix("sh")]
    done = subprocess.run(command, env=fresh, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Created flow run" in done.stdout
    assert "Set concurrency limit for work pool 'bertline' to 1" in done.stdout
    assert list(home.iterdir()) == []


def check_that_it_retrains(requested: str, port: int) -> None:
    """The run has the parameters of the command, and its first stage ends."""
    name = requested.partition("requested the run ")[2].partition(";")[0]
    basic = f"Basic {base64.b64encode(Path('state/prefect.key').read_bytes()).decode()}"
    of_name = json.dumps({"flow_runs": {"name": {"any_": [name]}}})
    servers.wait_until(Path("artifacts/code/stages/ingest.txt").exists, "the worker has not begun it")
    status, answer = sent(port, "POST /api/flow_runs/filter", of_name, Authorization=basic)
    assert status == 200
    (run,) = json.loads(answer.partition("\r\n\r\n")[2])
    assert (run["parameters"], run["state_type"]) == ({"names": ["headlines"]}, "RUNNING")


def working_in(folder: Path) -> list[psutil.Process]:
    """The processes with this working folder, but for this one."""
    working = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if Path(process.cwd()) == folder and process.pid != os.getpid():
                working.append(process)
    return working
