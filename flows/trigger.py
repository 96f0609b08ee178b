"""Have a deployment of the server that `bertline up` started run now, by its worker."""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any

from flows.local import deployments, prefect_settings
from pipelines.core.errors import InputError, UsageError, choices, one_line


def trigger(deployment: str, params: Iterable[str] = (), queue: str = "") -> str:
    """Ask for a run of `deployment` (FLOW/NAME) with params NAME=VALUE; returns the run's name.

    `queue` is a work queue of the pool; by default that of the deployment.

    Raises InputError if there is no server, or no such deployment on it.
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
            schema = client.read_deployment_by_name(deployment).parameter_openapi_schema or {}
        values = dict(_value(param, schema.get("properties", {})) for param in params)
        run: Any = run_deployment(deployment, parameters=values, timeout=0, work_queue_name=queue or None)
    except ObjectNotFound:
        raise UsageError(choices("deployment", deployment, deployments.names())) from None
    except (HTTPError, PrefectHTTPStatusError, OSError, ValueError) as error:
        raise InputError(f"{deployment}: Prefect's server did not start the run: {one_line(error)}") from None
    return str(run.name)


def _value(param: str, properties: Mapping[str, Any]) -> tuple[str, Any]:
    """NAME=VALUE; a value is JSON if it can be, else a text. A number is a text where the flow takes texts alone.

    Args:
        properties: the JSON schema of each of the flow's params.
    """
    name, equals, value = param.partition("=")
    if not equals:
        raise UsageError(f"--param {param}: no value; write NAME=VALUE")
    try:
        parsed = json.loads(value)
    except ValueError:
        return name, value
    described = properties.get(name, {})
    types = {one.get("type") for one in described.get("anyOf", [described])}
    is_text = isinstance(parsed, int | float) and types - {"null"} == {"string"}
    return name, value if is_text else parsed
