"""A file of JSON, or one sentence that says what is wrong with it, and where."""

import json
from pathlib import Path
from typing import Any

from pipelines.core.errors import InputError


def read(path: Path) -> Any:
    """What the file holds, whatever that is."""
    if not path.is_file():
        raise InputError(f"{path}: no such file")
    try:
        return json.loads(path.read_bytes().decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8; convert the file to UTF-8") from None
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: line {error.lineno}: not JSON: {error.msg}") from None
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON: {error}") from None


def mapping(path: Path) -> dict[str, Any]:
    """What a file of names and values holds: a config, a task."""
    found = read(path)
    if not isinstance(found, dict):
        raise InputError(f"{path}: it must map names to values")
    return found
