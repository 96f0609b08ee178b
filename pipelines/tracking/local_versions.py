"""The registered versions in this checkout's own database, read without MLflow, whose import takes seconds."""

import sqlite3
from contextlib import closing
from pathlib import Path

DATABASE = Path("state/mlflow/mlflow.db")
LEDGER = ".ledger"  # names that end so are ledgers: `ledger.SUFFIX`
SECONDS = 0.2  # it waits for a writer


def listed() -> list[tuple[str, int]]:
    """Name and number of each version, in order; empty without a database, or if it cannot be read now."""
    if not DATABASE.is_file():
        return []
    try:
        with closing(sqlite3.connect(f"{DATABASE.resolve().as_uri()}?mode=ro", uri=True, timeout=SECONDS)) as database:
            rows = database.execute("SELECT name, version FROM model_versions ORDER BY name, version").fetchall()
    except sqlite3.Error:
        return []
    return [(str(name), int(version)) for name, version in rows if not str(name).endswith(LEDGER)]
