"""The key of Prefect's server on this machine: whoever has it may run commands, so only this user reads the file."""

import secrets
from pathlib import Path

from pipelines.core import secret_file
from pipelines.core.errors import InputError

FILE = Path("state/prefect.key")


def read_or_make() -> str:
    """The key, as Prefect wants it: USER:PASSWORD. It is made once, and readable by its owner alone from the start."""
    secret_file.create(FILE, f"bertline:{secrets.token_urlsafe(32)}")
    if FILE.stat().st_mode & secret_file.OTHERS:
        raise InputError(f"{FILE}: other users can read it; run `bertline down`, remove it, and run `bertline up`")
    return read()


def read() -> str:
    """The key; empty where there is none."""
    return FILE.read_text().strip() if FILE.is_file() else ""
