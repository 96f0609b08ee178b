"""Servers on loopback for tests, which stop each by its process id."""

import os
import subprocess
import sys
import time
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

import boto3
import psutil

from flows.local import servers as local_servers
from pipelines.core.ports import free_port
from tests.support import endings

BIN = Path(sys.executable).parent
BUCKET = "bertline"
KEYS = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_DEFAULT_REGION": "us-east-1"}
START_SECONDS = 240  # a first start creates a database
Kind = TypeVar("Kind", bound="Server")


def stop(process: subprocess.Popen) -> None:
    """Kill a server and its children."""
    try:
        family = [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]
    except psutil.NoSuchProcess:
        return
    for member in family:
        with suppress(psutil.NoSuchProcess):  # a child may have ended after its parent
            member.kill()
    endings.alive_after(family, 20)
    process.wait(20)


class Server(ABC):
    """A server in a folder, which can be killed and started again at the same address."""

    def __init__(self, place: Path, **environment: str) -> None:
        self.place, self.port = place.resolve(), free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self.environment = os.environ | environment
        self.process: subprocess.Popen | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The command that starts the server."""

    health = "/health"

    def start(self) -> None:
        self.place.mkdir(parents=True, exist_ok=True)
        with (self.place / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), env=self.environment, cwd=self.place, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )
        until = time.monotonic() + START_SECONDS
        while not self.answers():
            assert self.process.poll() is None, f"it ended: {(self.place / 'server.log').read_text()[-2000:]}"
            assert time.monotonic() < until, f"no answer within {START_SECONDS} s"
            time.sleep(0.2)

    def answers(self) -> bool:
        try:
            with urllib.request.urlopen(self.address + self.health, timeout=5):
                return True
        except OSError:
            return False

    def kill(self) -> None:
        if self.process:
            stop(self.process)


class Mlflow(Server):
    """An MLflow server over SQLite and a folder, or over a given database and artefact store."""

    def __init__(self, place: Path, *more: str, database: str = "", artifacts: str = "", **environment: str) -> None:
        super().__init__(place, MLFLOW_SERVER_ENABLE_JOB_EXECUTION="false", **environment)
        self.environment.pop("MLFLOW_TRACKING_URI", None)
        self.more = more
        self.database = database or f"sqlite:///{self.place}/mlflow.db"
        self.artifacts = artifacts or str(self.place)

    def command(self) -> list[str]:
        server = [str(BIN / "mlflow"), "server", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "2"]
        stores = ["--backend-store-uri", self.database, "--artifacts-destination", self.artifacts]
        return [*server, *stores, *self.more]


class Prefect(Server):
    """A Prefect server that stores its leases in its folder."""

    health = "/api/health"

    def __init__(self, place: Path, database: str, **environment: str) -> None:
        super().__init__(place, **environment)
        self.environment |= {
            "PREFECT_HOME": str(self.place),
            "PREFECT_SERVER_DATABASE_CONNECTION_URL": database,
            "PREFECT_SERVER_CONCURRENCY_LEASE_STORAGE": local_servers.LEASES,
            "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
        }
        self.environment.pop("PREFECT_API_URL", None)
        self.api = f"{self.address}/api"

    def command(self) -> list[str]:
        return [str(BIN / "prefect"), "server", "start", "--host", "127.0.0.1", "--port", str(self.port)]


class Worker(Server):
    """A worker of Prefect's pool `bertline`; it has no address."""

    def command(self) -> list[str]:
        return [str(BIN / "prefect"), "worker", "start", "--pool", "bertline"]

    def answers(self) -> bool:
        return True


class S3(Server):
    """A moto server (S3) with one bucket. It loses its objects when it is killed; `start` creates the bucket again."""

    health = "/moto-api/"

    def command(self) -> list[str]:
        return [str(BIN / "moto_server"), "--host", "127.0.0.1", "--port", str(self.port)]

    def start(self) -> None:
        super().start()
        self.client().create_bucket(Bucket=BUCKET)

    def client(self) -> "boto3.client":
        return boto3.client(
            "s3",
            endpoint_url=self.address,
            region_name=KEYS["AWS_DEFAULT_REGION"],
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        )

    def for_mlflow(self) -> dict[str, str]:
        """The environment for an MLflow server that uses this bucket; pass it together with `artifacts`."""
        return {"MLFLOW_S3_ENDPOINT_URL": self.address, **KEYS}


def wait_until(
    true: Callable[[], object], why: str, seconds: float = START_SECONDS, pause_seconds: float = 0.3
) -> None:
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, why
        time.sleep(pause_seconds)


@contextmanager
def running(server: Kind) -> Iterator[Kind]:
    """Start a server for the block; it is killed at the end."""
    try:
        server.start()
        yield server
    finally:
        server.kill()


@contextmanager
def prefect(place: Path, database: str, **environment: str) -> Iterator[Prefect]:
    with running(Prefect(place, database, **environment)) as server:
        yield server


@contextmanager
def s3(place: Path) -> Iterator[S3]:
    with running(S3(place)) as server:
        yield server
