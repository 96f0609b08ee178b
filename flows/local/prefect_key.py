"""The key of Prefect's server on this machine: whoever has it may run commands, so only this user reads the file."""

import os
import secrets
from pathlib import Path

from pipelines.core.errors import InputError
from pipelines.core.secret_file import OTHERS, OWNER_ONLY

FILE = Path("state/prefect.key")


def read_or_make() -> str:
    """The key, as Prefect wants it: USER:PASSWORD. It is made once, and readable by its owner alone from the start."""
    FILE.parent.mkdir(parents=True, exist_ok=True)
    aside = FILE.with_name(f"{FILE.name}.{os.getpid()}")
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "w") as file:
            os.fchmod(file.fileno(), OWNER_ONLY)  # one of a killed process may lie there
            file.write(f"bertline:{secrets.token_urlsafe(32)}")
        os.link(aside, FILE)  # whole, or not at all, if two start at once
    except FileExistsError:
        pass
    finally:
        aside.unlink(missing_ok=True)
    if FILE.stat().st_mode & OTHERS:
        raise InputError(f"{FILE}: other users can read it; run `bertline down`, remove it, and run `bertline up`")
    return read()


def read() -> str:
    """The key; empty where there is none."""
    return FILE.read_text().strip() if FILE.is_file() else ""
