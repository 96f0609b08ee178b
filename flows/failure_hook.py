"""Tell somebody of a flow that failed: a message is sent to the address that BERTLINE_NOTIFY names."""

import json
import os
import time
import urllib.request
from http.client import HTTPException
from typing import Any

from pipelines.core.errors import MAX_PRINTED, one_line
from pipelines.core.progress import say
from pipelines.tracking.store import without_passwords

ADDRESS = "BERTLINE_NOTIFY"  # the variable that has it
SECONDS = 10  # to wait for an answer
PAUSES = (2, 10)  # seconds before the second attempt and the third


def failed(flow: Any, flow_run: Any, state: Any) -> None:
    """Post {"text": ...} as JSON, which chat services take; the log says so if that fails three times.

    For the hooks on_failure and on_crashed of a flow.
    """
    address = os.environ.get(ADDRESS)
    if not address:
        return
    why = one_line(without_passwords(state.message or "no reason given"), MAX_PRINTED)
    text = f"bertline: {flow.name} {flow_run.name}: {state.name}: {why}"
    body = json.dumps({"text": text, "flow": flow.name, "run": str(flow_run.id), "state": state.name}).encode()
    for pause in (*PAUSES, None):
        reason = _post(address, body)
        if not reason:
            return
        if pause is None:
            say(f"{ADDRESS}: the message was not sent: {reason}")
        else:
            time.sleep(pause)


def _post(address: str, body: bytes) -> str:
    """Post a body; returns why that failed, without the address, which is a secret: who has it may post."""
    try:
        request = urllib.request.Request(address, body, {"Content-Type": "application/json"})
        urllib.request.urlopen(request, timeout=SECONDS).close()
    except (OSError, ValueError, HTTPException) as error:
        return str(error) if isinstance(error, OSError) else "it is not the address of a web server"
    return ""


HOOKS: dict[str, Any] = {"on_failure": [failed], "on_crashed": [failed]}
