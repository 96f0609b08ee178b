"""Have a deployment of the server that `bertline up` started run now, by its worker."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from flows.local import deployments, prefect_settings
from pipelines.core.errors import InputError, UsageError, choices, one_line
from pipelines.core.progress import say


def trigger(deployment: str, params: Iterable[str] = (), queue: str = "") -> str:
    """Ask for a run of `deployment` (FLOW/NAME) with params NAME=VALUE; returns the run's name.

    `queue` is a work queue of the pool; by default that of the deployment.

    Raises InputError if there is no server, or no such deployment on it; UsageError for an unknown queue or param.
    A message says so if no worker is up, without which the run waits.
    """
    prefect_settings.use_running_server()
    if "PREFECT_API_URL" not in os.environ:
        raise InputError("no Prefect server of this checkout is up; `bertline up` starts one")
    from httpx import HTTPError
    from prefect.client.orchestration import get_client
    from prefect.deployments import run_deployment
    from prefect.exceptions import ObjectNotFound, PrefectHTTPStatusError

    try:
        with get_client(sync_client=True) as client:
            known = client.read_deployment_by_name(deployment)
            pool = known.work_pool_name or ""
            queues = [one.name for one in client.read_work_queues(pool)] if queue else []
            workers = client.read_workers_for_work_pool(pool) if pool else []
        if queue and queue not in queues:
            raise UsageError(choices("work queue", queue, queues))
        properties = (known.parameter_openapi_schema or {}).get("properties", {})
        values = dict(_value(param, properties) for param in params)
        run: Any = run_deployment(deployment, parameters=values, timeout=0, work_queue_name=queue or None)
    except ObjectNotFound:
        raise UsageError(_unknown(deployment, os.environ["PREFECT_API_URL"])) from None
    except UsageError:
        raise
    except (HTTPError, PrefectHTTPStatusError, OSError, ValueError) as error:
        raise InputError(f"{deployment}: Prefect's server did not start the run: {one_line(error)}") from None
    if pool and all(worker.status != "ONLINE" for worker in workers):
        say(f"no worker of the pool {pool} is up, so the run waits; `bertline up` starts one")
    return str(run.name)


def _unknown(deployment: str, address: str) -> str:
    """The sentence about a deployment that the server at `address` does not have."""
    if "api" not in urlsplit(address).path.split("/"):
        return f"PREFECT_API_URL: {address} is not the address of Prefect's API, which ends with /api"
    names = deployments.names()
    if deployment in names:
        return f"{address}: no deployment {deployment!r} on this server; `bertline up` registers it"
    return choices("deployment", deployment, names)


def _value(param: str, properties: Mapping[str, Any]) -> tuple[str, Any]:
    """NAME=VALUE; a value is JSON if it can be, else a text. A number is a text where the flow takes texts alone.

    Args:
        properties: the JSON schema of each of the flow's params.
    """
    name, equals, value = param.partition("=")
    if not equals:
        raise UsageError(f"--param {param}: no value; write NAME=VALUE")
    if name not in properties:
        raise UsageError(f"--param {param}: {choices('param', name, properties)}")
    try:
        parsed = json.loads(value)
    except ValueError:
        return name, value
    described = properties[name]
    types = {one.get("type") for one in described.get("anyOf", [described])}
    is_text = isinstance(parsed, int | float) and types - {"null"} == {"string"}
    return name, value if is_text else parsed
