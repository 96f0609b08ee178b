"""Start and stop Prefect's server, its worker and MLflow's server on this machine; each is known by its pid."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from flows.local import deployments, prefect_key, prefect_registration, service_ports, work_queues
from flows.local.http_service import require_free, wait_for
from flows.local.prefect_settings import PIDS, began, running
from pipelines.core import locks
from pipelines.core.errors import InputError
from pipelines.core.progress import say
from pipelines.tracking import store

LOGS = Path("state/logs")
LEASES = "prefect.server.concurrency.lease_storage.filesystem"
SERVICES = ("worker", "mlflow", "prefect")  # in the order in which they stop
START_SECONDS = 180  # the first start creates a database
STOP_SECONDS = 20
LOG_BYTES = 10_000_000  # a larger log becomes NAME.log.1 when its server starts


def _prefect_api() -> str:
    return f"http://127.0.0.1:{service_ports.numbers()['prefect']}/api"


def environment() -> dict[str, str]:
    """The environment of the services; they do not inherit the command line's own log level."""
    variables = {name: value for name, value in os.environ.items() if name != "PREFECT_LOGGING_LEVEL"}
    # seven more processes, for what nobody asks here
    variables.setdefault("MLFLOW_SERVER_ENABLE_JOB_EXECUTION", "false")
    # in memory a lease is lost with the server, and its slot is never free again
    variables.setdefault("PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE", LEASES)
    # runs and their logs go 90 days after their end; by default they stay for ever
    variables.setdefault("PREFECT_SERVER_SERVICES_DB_VACUUM_ENABLED", "true")
    return {**variables, "PREFECT_API_URL": _prefect_api(), "PWD": os.getcwd(), "PYTHONUNBUFFERED": "1"}


def _with_key(service: str) -> dict[str, str]:
    """The environment of a service, with the key of Prefect's server for those that need it.

    MLflow's server has its store's address from there: every user of the machine can read the arguments of a command.
    """
    if service == "mlflow":
        return environment() | {"MLFLOW_BACKEND_STORE_URI": store.uri()}
    key = prefect_key.read_or_make()
    variables = environment() | {"PREFECT_API_AUTH_STRING": key}
    if service == "prefect":  # pages of no other origin may read what it answers
        port = service_ports.numbers()[service]
        pages = ",".join(f"http://{host}:{port}" for host in ("127.0.0.1", "localhost"))
        variables |= {"PREFECT_SERVER_API_AUTH_STRING": key, "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": pages}
    return variables


def up() -> dict[str, str]:
    """Start what is not running, wait until it answers, register the deployments; returns the addresses and files.

    What it started is stopped again if it cannot start all of it. Raises InputError while another `up` or `down` runs.
    """
    ports = service_ports.numbers()
    PIDS.mkdir(parents=True, exist_ok=True)
    with _alone():
        return _up(ports)


def _up(ports: dict[str, int]) -> dict[str, str]:
    deployed = deployments.file()  # what is wrong in params.yaml is said before anything starts
    before = {name for name in SERVICES if running(name)}
    for name, port in ports.items():
        if name not in before:
            _require_ours(name, port)
    try:
        _start_all(deployed, ports)
    except BaseException:
        for name in SERVICES:
            if name not in before:
                _stop(name)
        raise
    return {
        "prefect": f"http://127.0.0.1:{ports['prefect']}",
        "key_file": str(prefect_key.FILE),
        "mlflow": f"http://127.0.0.1:{ports['mlflow']}",
        "logs": str(LOGS),
    }


def plain(started: dict[str, str]) -> str:
    """The addresses and files as lines of text."""
    prefect = f"Prefect  {started['prefect']} (its pages ask for the key in {started['key_file']})"
    return f"{prefect}\nMLflow   {started['mlflow']}\nlogs     {started['logs']}"


def _require_ours(name: str, port: int) -> None:
    """Raise InputError if another server is where ours would be: it would answer, and ours could not start."""
    try:
        require_free("127.0.0.1", port)
    except InputError as error:
        raise InputError(f"{error}; stop that server, or name another port in BERTLINE_{name.upper()}_PORT") from None


def _start_all(deployed: Path, ports: dict[str, int]) -> None:
    bin_folder = Path(sys.executable).parent
    prefect, mlflow = str(bin_folder / "prefect"), str(bin_folder / "mlflow")
    address = ["--host", "127.0.0.1", "--port"]
    uvicorn = [sys.executable, "-m", "uvicorn", "--factory", "flows.local.prefect_server:app"]
    _start("prefect", [*uvicorn, *address, str(ports["prefect"])], f"{_prefect_api()}/health")
    served = [mlflow, "server", "--workers", "1", *address, str(ports["mlflow"])]
    _start("mlflow", served, f"http://127.0.0.1:{ports['mlflow']}/health")
    prefect_registration.register(deployed, _with_key("deploy"))
    _start("worker", [prefect, "worker", "start", "--pool", work_queues.POOL], "")


def down() -> list[str]:
    """Stop what `up` started, and only that; returns what was stopped. Raises InputError while `up` runs."""
    if not PIDS.is_dir():  # no `up` ever ran here
        return []
    with _alone():
        return [name for name in SERVICES if _stop(name)]


@contextmanager
def _alone() -> Iterator[None]:
    """Hold the lock of the services: each of two `up` would start its own, and `down` would know one of them."""
    with ExitStack() as stack:
        try:
            stack.enter_context(locks.claim_entry("services", "up"))
        except InputError as error:
            raise InputError(f"bertline up or down: {error}") from None
        yield


def _start(name: str, command: list[str], health: str) -> None:
    if running(name):
        say(f"{name} is already up")
        return
    LOGS.mkdir(parents=True, exist_ok=True)
    path = LOGS / f"{name}.log"
    if path.is_file() and path.stat().st_size > LOG_BYTES:
        path.replace(path.with_suffix(".log.1"))
    with path.open("ab") as log:
        child = subprocess.Popen(
            command, env=_with_key(name), stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        record = {"pid": child.pid, "began": began(child.pid), "address": health.removesuffix("/health")}
        (PIDS / name).write_text(json.dumps(record))
        if health:
            wait_for(health, START_SECONDS)
        else:
            time.sleep(3)
        if child.poll() is not None:
            raise InputError(f"{name} ended at once with status {child.returncode}; see {LOGS / name}.log")
    except BaseException:  # without a record `down` would not know it
        if child.poll() is None:
            _end(psutil.Process(child.pid))
            child.poll()  # takes its status
        (PIDS / name).unlink(missing_ok=True)
        raise
    say(f"{name} is up")


def _stop(name: str) -> bool:
    """End a service and remove its record; False if it was not running."""
    process = running(name)
    if process is not None:
        _end(process)
    (PIDS / name).unlink(missing_ok=True)
    return process is not None


def _end(process: psutil.Process) -> None:
    """Terminate the process and its children, then kill those that are left."""
    family = [process, *process.children(recursive=True)]
    for member in family:
        _signal(member, "terminate")
    _, alive = psutil.wait_procs(family, STOP_SECONDS)
    for member in alive:
        _signal(member, "kill")
    psutil.wait_procs(alive, STOP_SECONDS)


def _signal(process: psutil.Process, how: str) -> None:
    try:
        getattr(process, how)()
    except psutil.NoSuchProcess:
        return
