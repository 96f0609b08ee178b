"""The registered versions in this checkout's own database, read without MLflow, whose import takes seconds."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

DATABASE = Path("state/mlflow/mlflow.db")
LEDGER = ".ledger"  # names that end so are ledgers: `ledger_events.SUFFIX`
NOT_DELETED = "current_stage IS NOT 'Deleted_Internal'"  # MLflow keeps the rows of versions that were deleted
SECONDS = 0.2  # it waits for a writer


@contextmanager
def reading(file: Path) -> Iterator[sqlite3.Connection]:
    """A database that is only read. Raises sqlite3.Error if it cannot be."""
    with closing(sqlite3.connect(f"{file.resolve().as_uri()}?mode=ro", uri=True, timeout=SECONDS)) as database:
        yield database


def listed() -> list[tuple[str, int]]:
    """Name and number of each version, in order; empty without a database, or if it cannot be read now."""
    if not DATABASE.is_file():
        return []
    question = f"SELECT name, version FROM model_versions WHERE {NOT_DELETED} ORDER BY name, version"
    try:
        with reading(DATABASE) as database:
            rows = database.execute(question).fetchall()
    except sqlite3.Error:
        return []
    return [(str(name), int(version)) for name, version in rows if not str(name).endswith(LEDGER)]
