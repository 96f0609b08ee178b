"""The pool, its urgent queue and the deployments, registered on Prefect's server; `up` and compose.yaml call it."""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from flows.local import deployments, work_queues
from pipelines.core.errors import InputError


def register(deployed: Path, environment: Mapping[str, str]) -> None:
    """Register what the file `deployed` has, and remove what an earlier one had; Prefect's server must be up.

    Raises InputError if the server or Prefect's command refuses.

    Args:
        environment: PREFECT_API_URL in it names the server, and PREFECT_API_AUTH_STRING has its key, if it has one.
    """
    api, key = environment["PREFECT_API_URL"], environment.get("PREFECT_API_AUTH_STRING", "")
    _run(["work-pool", "create", work_queues.POOL, "--type", "process", "--overwrite"], environment)
    work_queues.make_urgent(api, key)
    _run(["deploy", "--all", "--prefect-file", str(deployed)], environment)
    deployments.remove_others(deployed, api, key)


def _run(words: list[str], environment: Mapping[str, str]) -> None:
    """Run a command of Prefect: as a module, so that the flows of this folder are taken before installed ones."""
    command = [sys.executable, "-m", "prefect", "--no-prompt", *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise InputError(f"prefect {words[0]}: {_reason(done)}")


def _reason(done: subprocess.CompletedProcess[str]) -> str:
    """The last line of a command that failed, without the address that pydantic writes after its reasons."""
    lines = [line.strip() for line in (done.stderr.strip() or done.stdout).splitlines() if line.strip()]
    return next((line for line in reversed(lines) if not line.startswith("For further information")), "no reason given")


if __name__ == "__main__":
    try:
        register(deployments.file(), os.environ)
    except InputError as error:
        sys.exit(str(error))
