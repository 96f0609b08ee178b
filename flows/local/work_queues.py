"""The work queue `urgent` of the pool: where the pool has a limit, its runs begin before those of other queues."""

import base64
import json
import time
import urllib.error
import urllib.request

from pipelines.core.errors import InputError, one_line

POOL = "bertline"
URGENT = "urgent"
BUSY, WAITS = 503, (1, 2, 4, 8, 15, 30)  # Prefect's status while its database is locked; seconds between two attempts
FIRST = 1  # the highest priority; Prefect moves the others down


def make_urgent(api: str, key: str = "") -> None:
    """Make the queue in the pool of Prefect's server at `api`, or put it first if it is there already.

    Args:
        key: of the server, as USER:PASSWORD. Raises InputError if the server refuses.
    """
    queues = f"{api}/work_pools/{POOL}/queues"
    try:
        try:
            _send("POST", queues, {"name": URGENT, "priority": FIRST}, key)
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it is there
                raise
            _send("PATCH", f"{queues}/{URGENT}", {"priority": FIRST}, key)
    except OSError as error:
        raise InputError(f"{api}: the work queue {URGENT} cannot be made ({one_line(error)})") from None


def _send(method: str, address: str, body: dict[str, object], key: str) -> None:
    headers = {"Content-Type": "application/json"}
    if key:
        headers["Authorization"] = f"Basic {base64.b64encode(key.encode()).decode()}"
    request = urllib.request.Request(address, json.dumps(body).encode(), headers, method=method)
    for wait in (*WAITS, None):
        try:
            urllib.request.urlopen(request, timeout=60).close()
            return
        except urllib.error.HTTPError as error:
            if error.code != BUSY or wait is None:
                raise
            time.sleep(wait)
