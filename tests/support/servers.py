"""Servers on loopback that tests start, and stop by their own pid."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from flows.serve import free_port, wait_for


def stop(process: subprocess.Popen) -> None:
    """Kill a server and its children."""
    try:
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        if member.is_running():
            member.kill()
    psutil.wait_procs(family, 20)
    process.wait(20)


class Mlflow:
    """An MLflow server over SQLite and a folder, which can be killed and started again at the same address."""

    def __init__(self, place: Path, *more: str, **environment: str) -> None:
        self.place, self.more, self.port = place.resolve(), more, free_port()
        self.environment = os.environ | {"MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"} | environment
        self.address = f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        command = [str(Path(sys.executable).parent / "mlflow"), "server", "--host", "127.0.0.1"]
        stores = [
            "--backend-store-uri",
            f"sqlite:///{self.place}/mlflow.db",
            "--artifacts-destination",
            str(self.place),
        ]
        environment = {name: value for name, value in self.environment.items() if name != "MLFLOW_TRACKING_URI"}
        with (self.place / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--port", str(self.port), "--workers", "2", *stores, *self.more],
                env=environment,
                cwd=self.place,
                stdout=log,
                stderr=log,
            )
        wait_for(f"{self.address}/health", 120)

    def kill(self) -> None:
        stop(self.process)


@contextmanager
def mlflow(place: Path, *more: str, **environment: str) -> Iterator[Mlflow]:
    """A running server, ended at the end."""
    server = Mlflow(place, *more, **environment)
    try:
        server.start()
        yield server
    finally:
        server.kill()
