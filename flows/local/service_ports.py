"""The ports of Prefect's and MLflow's servers that `bertline up` starts: of the environment, or 4200 and 5000."""

import os

from pipelines.core.errors import UsageError, shown

VARIABLES = {"prefect": ("BERTLINE_PREFECT_PORT", 4200), "mlflow": ("BERTLINE_MLFLOW_PORT", 5000)}
HIGHEST = 65535


def numbers() -> dict[str, int]:
    """The port of each server. Raises UsageError for what is no port, and if both have the same."""
    ports = {service: _number(*variable) for service, variable in VARIABLES.items()}
    if len({*ports.values()}) < len(ports):
        names = " and ".join(name for name, _ in VARIABLES.values())
        raise UsageError(f"{names}: both are {ports['prefect']}; each server needs a port of its own")
    return ports


def _number(variable: str, default: int) -> int:
    text = os.environ.get(variable, str(default))
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(HIGHEST)) and 0 < int(text) <= HIGHEST):
        raise UsageError(f"{variable}: {shown(text)} is no port; write a number from 1 to {HIGHEST}, or unset it")
    return int(text)
