"""The work queue `urgent` of the pool: where the pool has a limit, its runs begin before those of other queues."""

import urllib.error

from flows.local import prefect_api
from pipelines.core.errors import InputError, one_line

POOL = "bertline"
URGENT = "urgent"
FIRST = 1  # the highest priority; Prefect moves the others down


def make_urgent(api: str, key: str = "") -> None:
    """Make the queue in the pool of Prefect's server at `api`, or put it first if it is there already.

    Args:
        key: of the server, as USER:PASSWORD. Raises InputError if the server refuses.
    """
    queues = f"{api}/work_pools/{POOL}/queues"
    try:
        try:
            prefect_api.send("POST", queues, {"name": URGENT, "priority": FIRST}, key)
        except urllib.error.HTTPError as error:
            if error.code != 409:  # it is there
                raise
            prefect_api.send("PATCH", f"{queues}/{URGENT}", {"priority": FIRST}, key)
    except OSError as error:
        raise InputError(f"{api}: the work queue {URGENT} cannot be made ({one_line(error)})") from None
