"""Prefect's temporary server, where PREFECT_API_URL names none: it ends with the process that needs it."""

import os
import subprocess
import sys
from typing import Any

from pipelines.graph import forkserver

TEMPORARY = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}


def use() -> None:
    """Have Prefect start its server in a session of its own, to be called before a flow.

    Prefect starts it beside its parent: Ctrl-C ends both, and the flow tries for minutes to tell the server that it was
    interrupted; any other signal ends the parent alone.
    """
    if "PREFECT_API_URL" in os.environ:
        return
    from prefect.server.api.server import SubprocessASGIServer  # takes seconds
    from prefect.settings import get_current_settings

    class TemporaryServer(SubprocessASGIServer):
        def _run_uvicorn_command(self) -> "subprocess.Popen[Any]":
            call = [sys.executable, "-m", "uvicorn", "--factory", "prefect.server.api.server:create_app"]
            settings = get_current_settings().to_environment_variables(exclude_unset=True)
            return subprocess.Popen(
                [*call, "--host", "127.0.0.1", "--port", str(self.port), "--log-level", "error", "--lifespan", "on"],
                env=os.environ | TEMPORARY | settings,
                start_new_session=True,
                preexec_fn=forkserver.end_with_parent,
            )

    TemporaryServer()  # Prefect keeps one server for each port, and asks for the one of no port
