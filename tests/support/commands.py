"""Run the command `bertline` in this process, since in a new process the imports take longer than most commands."""

import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import mlflow
import psutil
from prefect.client.orchestration import get_client
from prefect.settings import PREFECT_API_URL, temporary_settings

from flows.cli import command
from flows.local import temporary_server


@dataclass(frozen=True)
class Ended:
    """The status and output of a command that has ended, as a shell sees them."""

    status: int
    out: str
    err: str

    def require(self, status: int) -> "Ended":
        """Fail, with the command's output, if it ended with another status."""
        assert self.status == status, f"status {self.status}\n{self.out}{self.err}"
        return self


def bertline(*words: str, **environment: str) -> Ended:
    """Run `bertline WORDS`, then restore the environment. A single word is split as in a shell."""
    with _as_it_was(environment):
        return _ended(["bertline", *_split(words)])


def line_of(process: psutil.Process) -> str:
    """The command line of a process; "" if it has ended."""
    try:
        return " ".join(process.cmdline())
    except psutil.NoSuchProcess:
        return ""


def started(*words: str, **how: Any) -> subprocess.Popen[Any]:
    """Start `bertline WORDS` as a new process; its flows use the same Prefect server as this process."""
    temporary_server.use()
    with get_client(sync_client=True) as client:
        environment = os.environ | {"PREFECT_API_URL": str(client.api_url)}
    return subprocess.Popen([sys.executable, "-m", "flows.cli", *_split(words)], env=environment, **how)


@contextmanager
def using_prefect(api: str) -> Iterator[None]:
    """Let commands in this process use this Prefect server, although Prefect has read its settings already."""
    with patch.dict(os.environ, PREFECT_API_URL=api), temporary_settings({PREFECT_API_URL: api}):
        yield


def _split(words: tuple[str, ...]) -> list[str]:
    return shlex.split(words[0]) if len(words) == 1 else list(words)


@contextmanager
def _as_it_was(environment: dict[str, str]) -> Iterator[None]:
    """Restore the state of this process after a command, as if the command had been a process of its own."""
    uri = os.environ.get("MLFLOW_TRACKING_URI")
    with patch.dict(os.environ, environment):
        try:
            yield
        finally:
            command.DEBUG["on"] = False
            mlflow.set_tracking_uri(uri)


def _ended(argv: list[str]) -> Ended:
    out, err, status = io.StringIO(), io.StringIO(), 0
    with patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err):
        try:
            command.main()
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else int(end.code is not None)
    return Ended(status, out.getvalue(), err.getvalue())
