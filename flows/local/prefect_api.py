"""Requests to the API of Prefect's server, which wait while its database is busy; Prefect is not imported."""

import base64
import json
import time
import urllib.error
import urllib.request
from collections.abc import Mapping
from typing import Any

BUSY, WAITS = 503, (1, 2, 4, 8, 15, 30)  # Prefect's status while its database is locked; seconds between two attempts


def send(method: str, address: str, body: Mapping[str, object] | None, key: str) -> Any:
    """Send a request, and return its answer's JSON; None if it has no body.

    Raises OSError if the server does not answer, or refuses.

    Args:
        key: of the server, as USER:PASSWORD; "" if it has none.
    """
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Basic {base64.b64encode(key.encode()).decode()}"
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, headers, method=method)
    for wait in (*WAITS, None):
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.loads(answer.read() or b"null")
        except urllib.error.HTTPError as error:
            if error.code != BUSY or wait is None:
                raise
            time.sleep(wait)
    return None
