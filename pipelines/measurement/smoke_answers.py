"""The answers that a model gave to a few rows when it was registered, and whether it still gives them."""

import platform
from dataclasses import asdict, dataclass
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter, ValidationError

from pipelines.core import cpu, json_file
from pipelines.core.errors import InputError, sentence
from pipelines.inference import decoding
from pipelines.inference.predictor import Predictor

ROWS = 8  # that are kept with a version
# the allowed difference of a number where other hardware, another library or another runtime computes it; see `same`
TOLERANCE = 0.03
LIBRARIES = {"onnx": "onnxruntime", "torch": "torch"}


@dataclass(frozen=True)
class SmokeAnswers:
    """Rows with the answers that `Predictor.predict` gave them, and what computed these."""

    rows: list[dict[str, Any]]
    answers: list[dict[str, Any]]
    computed_by: str  # see `computer`
    rules: int = 0  # decoding.RULES when they were given; older files do not have it

    @classmethod
    def of(cls, folder: Path, runtime: str, rows: list[dict[str, Any]]) -> "SmokeAnswers":
        """The answers of the model in `folder`."""
        predictor = Predictor.load(folder, runtime)
        answers = predictor.predict(pa.Table.from_pylist(rows)).to_pylist()
        return cls(rows, answers, computer(predictor), decoding.RULES)

    @classmethod
    def read(cls, path: Path) -> "SmokeAnswers":
        """Read a file that `write` wrote. Raises InputError if it is another file."""
        try:
            registered = _KEPT.validate_python(json_file.read(path))
        except ValidationError as error:
            raise InputError(f"{path}: {sentence(error.errors()[0])}") from None
        if not registered.rows or len(registered.rows) != len(registered.answers):
            raise InputError(f"{path}: it has {len(registered.answers)} answers to {len(registered.rows)} rows")
        return registered

    def write(self, path: Path) -> None:
        json_file.write(path, asdict(self))

    def difference(self, answers: list[dict[str, Any]], exact: bool, kind: str = "") -> str:
        """A sentence on the first row that is answered otherwise now; "" if there is none.

        Args:
            answers: the answers to the rows now.
            exact: every bit must be equal. Otherwise numbers may differ by TOLERANCE, and a label with them.
            kind: of the rows; a score that other rules of decoding gave is not compared.
        """
        allowed = 0.0 if exact else TOLERANCE
        rescored = decoding.rescored(kind, self.rules)
        for number, (before, now) in enumerate(zip(self.answers, answers, strict=True)):
            for name, value in before.items():
                if name in now and (same(value, now[name], allowed) or (rescored and name == "score")):
                    continue
                near = not exact and name == "label" and same(before.get("scores"), now.get("scores"), allowed)
                if not near:
                    shown = "has other numbers" if isinstance(value, float | list) else f"is not {str(value)[:40]!r}"
                    return f"{name} of smoke row {number} {shown}, as it was at its registration"
        return ""


_KEPT = TypeAdapter(SmokeAnswers)


def computer(predictor: Predictor) -> str:
    """The runtime, its release and the CPU or GPU; equal texts compute equal bits from exact exports."""
    runtime = predictor.runtime.name
    device = getattr(predictor.runtime, "device", "cpu")
    return f"{runtime} {_release(LIBRARIES[runtime])} {platform.machine()} {device} {cpu.fingerprint()}"


@cache
def _release(library: str) -> str:
    return metadata.version(library)


def same(before: Any, now: Any, allowed: float) -> bool:
    """Return whether two values of an answer are equal; a number that is not finite equals none.

    Numbers may differ by `allowed`, and those beyond 1 by that share of them: float32 has only so many digits.
    """
    if isinstance(before, list) and isinstance(now, list):
        return len(before) == len(now) and all(same(a, b, allowed) for a, b in zip(before, now, strict=True))
    if isinstance(before, dict) and isinstance(now, dict):
        return before.keys() == now.keys() and all(same(before[name], now[name], allowed) for name in before)
    if isinstance(before, float) and isinstance(now, float):
        return bool(np.isfinite([before, now]).all()) and abs(before - now) <= allowed * max(1.0, abs(before))
    return bool(before == now)
