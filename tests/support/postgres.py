"""PostgreSQL on loopback, in a temporary folder."""

import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import psycopg2
import pytest

from pipelines.core.ports import free_port
from tests.support import endings
from tests.support.servers import stop

USER = "postgres"


def program(name: str) -> str:
    """The path of a PostgreSQL program; on Debian they are not in PATH."""
    debian = sorted(map(str, Path("/usr/lib/postgresql").glob("*/bin")))
    return shutil.which(name) or shutil.which(name, path=os.pathsep.join(debian[::-1])) or ""


needed = pytest.mark.skipif(not program("initdb"), reason="PostgreSQL is not installed on this machine")


class Postgres:
    """A server without a password, which can be killed and started again at the same port."""

    def __init__(self, place: Path) -> None:
        self.place, self.port = place, free_port()
        # PostgreSQL refuses to run as root
        self.user: dict[str, Any] = {"user": USER, "group": USER, "extra_groups": []} if os.getuid() == 0 else {}
        self.process: subprocess.Popen | None = None

    def create(self) -> None:
        initdb = [program("initdb"), "-D", str(self.place / "data"), "-U", USER, "-A", "trust", "-E", "UTF8"]
        subprocess.run([*initdb, "-N"], check=True, capture_output=True, cwd=self.place, **self.user)

    def start(self) -> None:
        listen = ["-h", "127.0.0.1", "-p", str(self.port), "-k", "", "-c", "fsync=off", "-c", "max_connections=200"]
        with (self.place / "postgres.log").open("ab") as log:
            self.process = subprocess.Popen(
                [program("postgres"), "-D", str(self.place / "data"), *listen],
                cwd=self.place,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                **self.user,
            )
        ready = [program("pg_isready"), "-q", "-U", USER, "-h", "127.0.0.1", "-p", str(self.port)]
        until = time.monotonic() + 60
        while subprocess.run(ready, check=False).returncode:
            assert self.process.poll() is None, (self.place / "postgres.log").read_text()
            assert time.monotonic() < until
            time.sleep(0.1)

    def kill(self) -> None:
        """Kill the first process with SIGKILL; the others then end."""
        assert self.process
        rest = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        self.process.wait(20)
        assert not endings.alive_after(rest, 20)

    def stop(self) -> None:
        """Stop the server as an administrator would; clients lose their connections."""
        assert self.process
        self.process.send_signal(signal.SIGINT)
        self.process.wait(60)

    def execute(self, database: str, statement: str) -> list[tuple[Any, ...]]:
        """Execute a statement; returns its rows."""
        address = f"host=127.0.0.1 port={self.port} user={USER} dbname={database}"
        with closing(psycopg2.connect(address)) as connection, connection.cursor() as cursor:
            connection.autocommit = True
            cursor.execute(statement)
            return cursor.fetchall() if cursor.description else []

    def database(self, name: str, driver: str = "psycopg2") -> str:
        """Create a database; returns its SQLAlchemy address with this driver."""
        self.execute(USER, f"CREATE DATABASE {name}")
        return self.address(name, driver)

    def address(self, name: str, driver: str = "psycopg2") -> str:
        return f"postgresql+{driver}://{USER}@127.0.0.1:{self.port}/{name}"


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A running server, in its own folder, since its user may not enter the folders of tests that root runs."""
    with tempfile.TemporaryDirectory(prefix="bertline-postgres-", ignore_cleanup_errors=True) as name:
        place = Path(name)
        if os.getuid() == 0:
            shutil.chown(place, USER, USER)
        server = Postgres(place)
        server.create()
        try:
            server.start()
            yield server
        finally:
            if server.process and server.process.poll() is None:
                stop(server.process)
