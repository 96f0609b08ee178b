"""Answers predicted again by the version that they name, and each row whose answer differs by a bit."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core import provenance, tables
from pipelines.core.canonical_json import canonical
from pipelines.core.errors import InputError, one_line, shown
from pipelines.core.progress import progress
from pipelines.inference import runtimes
from pipelines.inference.predictor import Predictor
from pipelines.measurement import smoke_answers
from pipelines.scoring import answer_rows, pieces, row_checks
from pipelines.scoring.answer_rows import AnswerRows
from pipelines.scoring.job_folders import Folder
from pipelines.tracking import registry

TORCH_DIFFERENCE = 1e-4  # of a number by torch, which depends on the rows beside; an export has the same bits
ANY_LENGTH = 1 << 62  # a job has left out longer rows already
ModelKey = tuple[Any, ...]  # the values of answer_rows.MODEL_COLUMNS


@dataclass
class AnswerReplay:
    """The number of rows that were predicted again; a sentence for each that differs, or could not be."""

    rows: int = 0
    findings: list[str] = field(default_factory=list)
    by_torch: bool = False  # some, so that numbers within TORCH_DIFFERENCE count as equal

    def sentence(self) -> str:
        """The replay in words."""
        equal = f"equal within {TORCH_DIFFERENCE}, as torch computes some" if self.by_torch else "equal to the bit"
        return f"{self.rows:,} answers predicted again" + ("" if self.findings else f", all {equal}")


def replay(place: Folder) -> AnswerReplay:
    """Predict every row in `place`, a Parquet file or a folder of them, by the version in its columns.

    Raises InputError if there is no such file. Everything else that is wrong is a finding.
    """
    replayed, files, models = AnswerReplay(), answer_rows.files(place), _Models()
    with progress("predicting again", len(files), "files") as advance:
        for number, name in enumerate(files, start=1):
            for rows in answer_rows.read(place, name, replayed.findings):
                models_of_rows = list(zip(*map(rows.values, answer_rows.MODEL_COLUMNS), strict=True))
                for model in dict.fromkeys(models_of_rows):
                    places = np.array([i for i, other in enumerate(models_of_rows) if other == model])
                    _replay(rows, places, model, models, replayed)
            advance(number)
    replayed.findings = [place.shown(line) for line in replayed.findings]
    return replayed


def _replay(rows: AnswerRows, places: np.ndarray, model: ModelKey, models: "_Models", replayed: AnswerReplay) -> None:
    """Predict the rows at `places`, which are of one model, and compare."""
    try:
        predictor = models.opened(model)
        task = predictor.task
        part = tables.taken(rows.rows, places)
        row_checks.require_columns(part.schema, task)
        whole, numbers, bad = row_checks.without_broken_text(part, places, task)
        piece = pieces.checked(whole, numbers, bad, task, ANY_LENGTH)
        again = predictor.predict(piece.inputs).to_pylist() if len(piece.numbers) else []
    except (InputError, pa.ArrowException) as error:
        where = rows.place(int(places[0]))
        replayed.findings.append(f"{where} and {len(places) - 1:,} more of this version: {one_line(error)}")
        return
    by_torch = isinstance(predictor.runtime, runtimes.Torch)
    replayed.by_torch |= by_torch
    replayed.rows += len(piece.numbers)
    replayed.findings += [f"{rows.place(one.row)}: its text cannot be predicted: {one.sentence}" for one in piece.bad]
    answers = rows.answers(task.kind)
    for number, now in zip(piece.numbers, again, strict=True):
        if other := difference(answers[number], now, TORCH_DIFFERENCE if by_torch else 0.0):
            replayed.findings.append(
                f"{rows.place(int(number))}: {model[0]} version {model[1]} answers otherwise: {other}"
            )


def difference(before: dict[str, Any], now: dict[str, Any], allowed: float) -> str:
    """The fields of an answer that differ, each with its old and its new value; "" if none does."""
    others = [name for name in before if not _same(before[name], now[name], allowed)]
    return ", ".join(f"{name} {shown(before[name])} -> {shown(now[name])}" for name in others)


def _same(before: Any, now: Any, allowed: float) -> bool:
    if allowed:
        return smoke_answers.same(before, now, allowed)
    try:
        return canonical(before) == canonical(now)
    except (TypeError, ValueError):
        return False


class _Models:
    """The versions that rows name, each opened once."""

    def __init__(self) -> None:
        self._opened: dict[ModelKey, Predictor | InputError] = {}

    def opened(self, model: ModelKey) -> Predictor:
        """The predictor of a version. Raises InputError if it is not there, or its files are others."""
        if model not in self._opened:
            try:
                self._opened[model] = _opened(*model)
            except InputError as error:
                self._opened[model] = error
        opened = self._opened[model]
        if isinstance(opened, InputError):
            raise opened
        return opened


def _opened(name: Any, number: Any, digest: Any) -> Predictor:
    if not (isinstance(name, str) and type(number) is int):
        raise InputError(f"{shown(name)} version {shown(number)}: no version of a model")
    version = registry.version(name, number)
    for runtime in ("", *runtimes.RUNTIMES):  # the tag that says which runtime serves it may have changed since
        try:
            folder = registry.folder(version, runtime)
        except InputError:
            if not runtime:
                raise
            continue
        if provenance.content_digest(folder) == digest:
            return Predictor.load(folder)
    raise InputError(f"{version}: its files are others than those with the digest {shown(digest)}")
