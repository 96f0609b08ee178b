"""Where Prefect keeps its state here, set before it is imported."""

import logging
import os
from pathlib import Path

HOME = Path("state/prefect")


def use_local_state() -> None:
    """Prefect's SQLite below state/ unless the environment names another home or server; no telemetry."""
    if (
        "PREFECT_HOME" not in os.environ and Path("params.yaml").exists()
    ):  # in a checkout, not wherever one types --help
        HOME.mkdir(parents=True, exist_ok=True)  # Prefect makes the folder, but not its parents
        os.environ["PREFECT_HOME"] = str(HOME.resolve())
    os.environ.setdefault("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
    os.environ.setdefault("PREFECT_LOGGING_LEVEL", "CRITICAL")  # errors are told in one sentence, by the command line
    # they stand outside Prefect's own loggers, and warn when a slow server has not taken their last items yet
    for service in ("EventsWorker", "APILogWorker"):
        logging.getLogger(service).setLevel(logging.CRITICAL)
    os.environ.setdefault("PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS", "120")
    os.environ.setdefault("DO_NOT_TRACK", "1")
