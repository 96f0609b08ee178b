"""Tell somebody of a flow that failed: a message is sent to the address that BERTLINE_NOTIFY names."""

import json
import os
import urllib.request
from http.client import HTTPException
from typing import Any

from pipelines.core.progress import say
from pipelines.tracking.store import without_passwords

ADDRESS = "BERTLINE_NOTIFY"  # the variable that has it
SECONDS = 10


def failed(flow: Any, flow_run: Any, state: Any) -> None:
    """Post {"text": ...} as JSON, which chat services take; the log says so if that fails.

    For the hooks on_failure and on_crashed of a flow.
    """
    address = os.environ.get(ADDRESS)
    if not address:
        return
    why = without_passwords(state.message or "no reason given")
    text = f"bertline: {flow.name} {flow_run.name}: {state.name}: {why}"
    body = json.dumps({"text": text, "flow": flow.name, "run": str(flow_run.id), "state": state.name}).encode()
    try:
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=SECONDS).close()
    except (OSError, ValueError, HTTPException) as error:  # the address is a secret: who has it may post
        reason = str(error) if isinstance(error, OSError) else "it is not the address of a web server"
        say(f"{ADDRESS}: the message was not sent: {reason}")


HOOKS: dict[str, Any] = {"on_failure": [failed], "on_crashed": [failed]}
