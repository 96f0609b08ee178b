"""The metrics file of a run or an encoder, with the keys that every reader of it needs."""

from typing import Any

from pipelines.core import json_file, paths
from pipelines.core.errors import InputError

SCORED = {"run": str, "how": str, "task": str, "split": str, "metric": str, "metrics": dict, "model": dict}
PRETRAINED = {"run": str, "objective": str, "metrics": dict, "curve": list}


def read(run: str) -> dict[str, Any]:
    """The content of artifacts/metrics/<run>.json. Raises InputError, which names the key, if it was edited by hand."""
    file = paths.metrics(run)
    record = json_file.mapping(file)
    for key, kind in (PRETRAINED if "objective" in record else SCORED).items():
        if not isinstance(record.get(key), kind):
            wrong = f"a wrong `{key}`" if key in record else f"no `{key}`"
            raise InputError(f"{file}: {wrong}; `bertline run` writes the file again")
    return record
