"""Calls to what may run on this machine: the HTTP service, for its models, and Prefect's server, for its runs."""

import json
import os
import ssl
from base64 import b64encode
from contextlib import suppress
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

from flows.local import prefect_settings
from pipelines.serving import certificates

SERVICE = "http://127.0.0.1:8000"  # `bertline serve`; BERTLINE_SERVICE names another
SECONDS = 2.0  # a server of this machine answers in milliseconds, if the machine is not busy
RUNS = 5  # that ended
MOST_RUNS = 200  # that Prefect's server lists at once


def served() -> dict[str, Any]:
    """{"address", "models"}, or {"address", "problem"} where nothing answers, or a key is needed."""
    address, key = os.environ.get("BERTLINE_SERVICE", ""), os.environ.get("BERTLINE_SERVICE_KEY", "")
    headers = {"Authorization": f"Bearer {key}"} if address and key else {}  # a key is for the service that is named
    address = (address or SERVICE).rstrip("/")
    try:
        models = _json(Request(f"{address}/models", headers=headers))
        return {
            "address": address,
            "models": [{key: model.get(key) for key in ("name", "version")} for model in models],
        }
    except HTTPError as error:
        needs = "it answers, and needs a key" if error.code == 401 else f"it answers with status {error.code}"
        return {"address": address, "problem": needs}
    except (URLError, OSError, ValueError, AttributeError, TypeError) as error:
        return {"address": address, "problem": certificates.untrusted(error) or "nothing answers there"}


def healthy(port: int) -> bool:
    """Return whether `bertline serve` answers at a port of this machine, with TLS or without."""
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it is of another name than 127.0.0.1
    for scheme in ("http", "https"):
        address = f"{scheme}://127.0.0.1:{port}/v2/health/live"  # /health is 503 where no model is served
        with (
            suppress(OSError, ValueError, HTTPException),  # another program may answer anything
            urlopen(address, timeout=SECONDS, context=context) as answer,
        ):
            if json.loads(answer.read(100)) == {"live": True}:
                return True
    return False


def flow_runs() -> dict[str, Any]:
    """{"address", "last", "next"}: flow runs that ended, and the next of each deployment; or {"problem"}."""
    prefect_settings.use_running_server()
    if not (address := os.environ.get("PREFECT_API_URL")):
        return {"problem": "no Prefect server is up; `bertline up` starts one, and schedules run only there"}
    try:
        ended = _runs(address, ["COMPLETED", "FAILED", "CRASHED", "CANCELLED"], "END_TIME_DESC", "end_time", RUNS)
        planned = _runs(address, ["SCHEDULED"], "EXPECTED_START_TIME_ASC", "expected_start_time", MOST_RUNS)
        soonest = {run["deployment"] or run["run"]: run for run in reversed(planned)}
        return {"address": address, "last": ended, "next": [run for run in planned if run in soonest.values()]}
    except (URLError, OSError, ValueError, KeyError, TypeError) as error:
        return {"address": address, "problem": f"Prefect's server does not answer: {error}"}


def _runs(address: str, states: list[str], order: str, time: str, most: int) -> list[dict[str, Any]]:
    body = {"sort": order, "limit": most, "flow_runs": {"state": {"type": {"any_": states}}}}
    headers = {"Content-Type": "application/json"}
    if key := os.environ.get("PREFECT_API_AUTH_STRING"):
        headers["Authorization"] = f"Basic {b64encode(key.encode()).decode()}"
    answer = _json(Request(f"{address}/flow_runs/filter", json.dumps(body).encode(), headers))
    names = _deployments(address, headers) if answer else {}
    return [
        {
            "run": run["name"],
            "deployment": names.get(run.get("deployment_id") or "", ""),
            "state": run["state_name"],
            "at": run[time],
        }
        for run in answer
    ]


def _deployments(address: str, headers: dict[str, str]) -> dict[str, str]:
    """The deployments as FLOW/NAME by their ids."""
    flows, deployments = (_json(Request(f"{address}/{of}/filter", b"{}", headers)) for of in ("flows", "deployments"))
    names = {flow["id"]: flow["name"] for flow in flows}
    return {one["id"]: f"{names.get(one['flow_id'], '')}/{one['name']}" for one in deployments}


def _json(request: Request) -> Any:
    with urlopen(request, timeout=SECONDS) as answer:
        return json.load(answer)
