"""What Ray's worker processes need in order to find this checkout's packages and stores."""

import logging
import os
from typing import Any


def address() -> str:
    """The cluster in RAY_ADDRESS, else "local" for a new one; by default Ray would try the last one of this machine."""
    return os.environ.get("RAY_ADDRESS") or "local"


def runtime_environment() -> dict[str, Any]:
    """Ray's runtime_env: the checkout on PYTHONPATH, this process's settings of MLflow and bertline, shorter logs."""
    here = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    passed = {name: value for name, value in os.environ.items() if name.startswith(("MLFLOW_", "BERTLINE_"))}
    return {"env_vars": {**passed, "PYTHONPATH": here}, "worker_process_setup_hook": quieten}


def quieten() -> None:
    """Runs first in each worker: Ray Train's own lines repeat our progress."""
    logging.getLogger("ray.train.v2").setLevel(logging.WARNING)
