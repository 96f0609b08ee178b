"""The certificate of a new version: what it must show, beside the version that answers, before it gets any request."""

import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core import memory
from pipelines.core.errors import InputError, one_line
from pipelines.core.progress import say
from pipelines.inference import predictor as predictors
from pipelines.measurement import smoke_answers
from pipelines.measurement.smoke_answers import SmokeAnswers
from pipelines.serving.model_threads import ModelThreads
from pipelines.serving.row_batcher import ModelError, Prediction
from pipelines.serving.served_model import ServedModel
from pipelines.tracking import registry

# rounds of the comparison of speed; the least time of each version counts, as the machine has other work
ROUNDS = 5  # at least
MOST_ROUNDS, MOST_SECONDS = 20, 5.0  # for a version that seems too slow
NEEDED = 2.0  # bytes of memory to open a version, for each byte of its files
MB = 1_000_000


@dataclass(frozen=True)
class Conditions:
    """Limits of a new version; 0 sets none."""

    max_slowdown: float = 5.0  # the time for its smoke rows, as a multiple of the current version's
    max_model_mb: float = 0.0  # its files; in any case it must fit in the free memory


class RefusedError(InputError):
    """A version gets no request. `lasting`: it would be refused again unless its files change."""

    def __init__(self, sentence: str, lasting: bool = True) -> None:
        self.lasting = lasting
        super().__init__(sentence)


def certified(
    name: str, version: registry.Version, folder: Path, runtime: str, threads: ModelThreads,
    current: ServedModel | None, conditions: Conditions,
) -> ServedModel:  # fmt: skip
    """Open a version from its folder, and let it answer its smoke rows beside the current one.

    Raises RefusedError if it is too large, does not open, answers NaN, answers a smoke row otherwise than at its
    registration, or is too slow.
    """
    _require_room(folder, conditions)
    try:
        model = ServedModel.open(name, version, folder, runtime, threads)
        rows = _require_answers(model, version)
        if current and conditions.max_slowdown and rows:
            _require_speed(model, current, rows, conditions.max_slowdown)
    except RefusedError:
        raise
    except InputError as error:
        raise RefusedError(_sentence(error, folder)) from error
    except Exception as error:  # of any type: a library's own error for a damaged file
        raise RefusedError(f"it cannot be run ({type(error).__name__}: {_sentence(error, folder)})") from error
    return model


def _sentence(error: Exception, folder: Path) -> str:
    """The message of an error on one line, without the path of the folder, which is no client's business."""
    return one_line(InputError(str(error).replace(f"{folder}/", "").replace(str(folder), folder.name)))


def _require_room(folder: Path, conditions: Conditions) -> None:
    size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    if conditions.max_model_mb and size > conditions.max_model_mb * MB:
        raise RefusedError(f"its files have {size / MB:,.1f} MB; {conditions.max_model_mb:,g} are allowed")
    if NEEDED * size > (free := memory.free_bytes()):
        needed = f"its files have {size / MB:,.0f} MB, and to open it needs {NEEDED * size / MB:,.0f} MB of memory"
        raise RefusedError(f"{needed}; {free / MB:,.0f} MB are free", lasting=False)


def _require_answers(model: ServedModel, version: registry.Version) -> list[dict[str, Any]]:
    """Compare the answers to the smoke rows with those of the registration; returns the rows."""
    path = registry.smoke(version)
    if not path:
        rows = registry.example(version)
        _predictions(model, rows)
        say(f"{version} was registered without answers to compare with; it answers its example, and is accepted")
        return rows
    registered = SmokeAnswers.read(path)
    same_computer = registered.computed_by == smoke_answers.computer(model.predictor)
    exact = same_computer and model.row_difference == 0
    together = _predictions(model, registered.rows)
    alone = [_predictions(model, [row])[0] for row in registered.rows]
    for answers in (together, alone):
        if different := registered.difference(answers, exact, model.task.kind):
            raise InputError(different)
    return registered.rows


def _predictions(model: ServedModel, rows: list[dict[str, Any]]) -> list[Prediction]:
    """The answers to rows that no request has sent, so that its limits do not bind them."""
    return model.batcher.predictions([predictors.inputs(pa.Table.from_pylist(rows), model.task)])


def _require_speed(model: ServedModel, current: ServedModel, rows: list[dict[str, Any]], most: float) -> None:
    """Let both versions answer the rows in turn; raise RefusedError if the new one takes too much longer."""
    if (model.task.kind, model.inputs) != (current.task.kind, current.inputs):
        return  # they have no rows in common
    try:
        same = predictors.inputs(pa.Table.from_pylist(rows), current.task)
    except InputError:  # another number of choices
        return
    new = now = (math.inf, math.inf)
    began = time.monotonic()
    for count in range(1, MOST_ROUNDS + 1):
        new = _least(new, model, same)
        try:
            now = _least(now, current, same)
        except ModelError:  # the current version is damaged, which is no reason to keep it
            return
        ratio = min(a / b for a, b in zip(new, now, strict=True))
        if count >= ROUNDS and ratio <= most:
            return
        if count >= ROUNDS and time.monotonic() > began + MOST_SECONDS:
            break
    raise RefusedError(
        f"it takes {1000 * new[0]:.1f} ms for {len(rows)} smoke rows, {ratio:.1f} times as long as "
        f"{current.version}; {most:g} times are allowed",
        lasting=False,
    )


def _least(before: tuple[float, float], model: ServedModel, rows: pa.RecordBatch) -> tuple[float, float]:
    """The least seconds so far for the rows: by the clock, and of this thread on a core.

    By the clock alone a version seems slow if other processes get the core meanwhile.
    """
    start = time.perf_counter(), time.thread_time()
    model.batcher.predictions([rows])
    seconds = time.perf_counter() - start[0], time.thread_time() - start[1]
    return min(before[0], seconds[0]), min(before[1], max(seconds[1], 1e-6))
