"""Prefect's temporary server, where PREFECT_API_URL names none: it ends with the process that needs it."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from pipelines.core.errors import InputError
from pipelines.graph import forkserver

TEMPORARY = {"PREFECT_UI_ENABLED": "0", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
ROOM_BYTES = 4 << 20  # more than a run adds to Prefect's database


def use() -> None:
    """Have Prefect start its server in a session of its own, to be called before a flow.

    Prefect starts it beside its parent: Ctrl-C ends both, and the flow tries for minutes to tell the server that it was
    interrupted; any other signal ends the parent alone. Raises InputError if there is no room for Prefect's database.
    """
    if "PREFECT_API_URL" in os.environ:
        return
    require_room(Path(os.environ.get("PREFECT_HOME", "~/.prefect")).expanduser())
    from prefect.server.api.server import SubprocessASGIServer  # takes seconds
    from prefect.settings import get_current_settings

    class TemporaryServer(SubprocessASGIServer):
        def start(self, timeout: int | None = None) -> None:
            try:
                super().start(timeout)
            except RuntimeError as error:
                raise InputError(f"Prefect's server does not start: {error} Run the command again") from None

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


def require_room(home: Path) -> None:
    """Raise InputError if nothing can be written to `home`: Prefect would start its server anew for two minutes."""
    try:
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=home) as file:
            file.write(bytes(ROOM_BYTES))
    except OSError as error:
        raise InputError(
            f"{home}: Prefect keeps its database there, and cannot ({error.strerror}); make room, or set PREFECT_HOME"
        ) from None
