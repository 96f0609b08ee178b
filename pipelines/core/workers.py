"""What a worker process needs to find this checkout's packages and stores."""

import os
from typing import Any


def runtime_environment() -> dict[str, Any]:
    """Ray's runtime_env: the checkout on PYTHONPATH, and the addresses that this process was given."""
    here = os.pathsep.join(filter(None, [os.getcwd(), os.environ.get("PYTHONPATH")]))
    passed = {name: value for name, value in os.environ.items() if name.startswith(("MLFLOW_", "BERTLINE_"))}
    return {"env_vars": {**passed, "PYTHONPATH": here}}
