"""Prefect's settings for this checkout; they must be set before Prefect is imported."""

import json
import logging
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from flows.local import prefect_key

if TYPE_CHECKING:  # every command imports this module, and a shell's completion waits for it
    import psutil

HOME, PIDS = Path("state/prefect"), Path("state/pids")


def use_local_state() -> None:
    """Keep Prefect's database below state/ unless the environment names another home."""
    if (
        "PREFECT_HOME" not in os.environ and Path("params.yaml").exists()
    ):  # in a checkout, not wherever someone calls --help
        HOME.mkdir(parents=True, exist_ok=True)  # Prefect makes the folder, but not its parents
        os.environ["PREFECT_HOME"] = str(HOME.resolve())
        use_running_server()  # what is typed here shows in its pages too
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")  # the command line prints errors, in one sentence
    # these loggers are not below Prefect's own; they warn when a slow server has not taken their last items
    for service in ("EventsWorker", "APILogWorker"):
        logging.getLogger(service).setLevel(logging.CRITICAL)
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")
    # each waits twice as long as the one before: a flow run waits four minutes for a server that is started again
    os.environ.setdefault("PREFECT_CLIENT_MAX_RETRIES", "7")


def use_running_server() -> None:
    """Have Prefect's clients of this process use the server that `up` started, if any; no other is given its key."""
    if running("prefect"):
        address = record("prefect")["address"]
        if os.environ.setdefault("PREFECT_API_URL", address) == address and (key := prefect_key.read()):
            os.environ.setdefault("PREFECT_API_AUTH_STRING", key)


def before_a_flow(names: Iterable[str] = (), *sections: str) -> None:
    """Check that sections have entries of these names, before Prefect is imported, which takes seconds.

    Then have its temporary server end with this process.
    """
    from flows.local import temporary_server
    from pipelines.graph import checking

    for name in names:
        checking.require_entry(name, *sections)
    temporary_server.use()


def running(name: str) -> "psutil.Process | None":
    """The process that `up` started under `name`; None if it has ended, even if another process has its pid now."""
    if not (PIDS / name).is_file():
        return None
    import psutil

    try:
        known = record(name)
        if type(known["pid"]) is not int:  # psutil takes none for this process
            return None
        process = psutil.Process(known["pid"])
        alive = began(process.pid) == known["began"] and process.status() != psutil.STATUS_ZOMBIE
    except (OSError, ValueError, KeyError, TypeError, OverflowError, psutil.Error):  # or a note that is damaged
        return None
    return process if alive else None


def began(pid: int) -> int:
    """Clock ticks from the machine's start to the process's (`man proc_pid_stat`), which stay when the clock is set."""
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])


def record(name: str) -> dict[str, Any]:
    """The record that `up` made of a service: its pid, when it began, and its address if it has one."""
    fields: dict[str, Any] = json.loads((PIDS / name).read_text())
    return fields
