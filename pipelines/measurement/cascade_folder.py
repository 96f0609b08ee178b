"""Compose the folder of a cascade: a student, a champion, and the margin above which the student may answer."""

import heapq
import shutil
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from pipelines.core.errors import InputError, UsageError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.evaluation import agreement
from pipelines.inference import cascade, row_digests
from pipelines.inference.cascade import CHAMPION, KINDS, STUDENT, Composition
from pipelines.inference.predictor import Predictor
from pipelines.inference.predictor import inputs as input_rows
from pipelines.inference.runtimes import CASCADE_FILE, ONNX_FILE
from pipelines.text import protocol

SMOKE_ROWS = 8  # half of them with the least margins, and half with the greatest
Ranked = tuple[float, int, dict[str, Any]]  # margin, number, row


@dataclass(frozen=True)
class Goal:
    """The share of rows on which a cascade must give the champion's label, and the confidence of that."""

    agreement: float = 0.995
    confidence: float = 0.95

    def __post_init__(self) -> None:
        for name in ("agreement", "confidence"):
            if not 0.5 <= getattr(self, name) < 1:
                raise UsageError(f"{name}: {getattr(self, name):g} is not at least 0.5 and below 1")


@dataclass
class Answers:
    """The answers of student and champion to different rows.

    Attributes:
        margins: the student's, a part for each batch.
        agrees: whether the labels agree.
        least, greatest: the rows with the least and the greatest margins, each with its margin and its number.
    """

    margins: list[np.ndarray] = field(default_factory=list)
    agrees: list[np.ndarray] = field(default_factory=list)
    least: list[Ranked] = field(default_factory=list)
    greatest: list[Ranked] = field(default_factory=list)

    def add(self, margins: np.ndarray, agrees: np.ndarray, rows: list[dict[str, Any]]) -> None:
        first = sum(map(len, self.margins))
        ranked = list(zip(margins.tolist(), range(first, first + len(rows)), rows, strict=True))
        self.least = heapq.nsmallest(SMOKE_ROWS // 2, self.least + ranked)
        self.greatest = heapq.nlargest(SMOKE_ROWS // 2, self.greatest + ranked)
        self.margins.append(margins)
        self.agrees.append(agrees)

    def clearest(self) -> list[dict[str, Any]]:
        """Rows with margins far from any threshold, so that other hardware leaves them to the same model."""
        return list({number: row for _, number, row in self.least + self.greatest}.values())


def compose(
    student: Path, champion: Path, batches: Iterable[pa.RecordBatch], goal: Goal, number: int, out: Path
) -> tuple[Composition, list[dict[str, Any]]]:
    """Write the cascade of two exported folders into the empty folder `out`.

    Args:
        batches: rows with the inputs of the task, on which neither model was trained; they need no labels. A row that
            occurs again counts once.
        goal: what the cascade must keep.
        number: of the champion's registered version.

    Returns:
        The composition, and rows to try a cascade on: their margins are far from the threshold.

    Raises:
        InputError: the models do not fit each other, there are too few rows, or the student is not sure of any row.
    """
    first, second = _opened(student), _opened(champion)
    _require_alike(first, second)
    answers = _answers(first, second, batches)
    margins, agrees = np.concatenate(answers.margins), np.concatenate(answers.agrees)
    most = agreement.most_disagreements(len(margins), goal.agreement, goal.confidence)
    if most < 0:
        least = agreement.least_rows(goal.agreement, goal.confidence)
        raise InputError(
            f"{len(margins):,} different rows are too few: an agreement of {goal.agreement:g} at a confidence of "
            f"{goal.confidence:g} needs {least:,} or more; name a file of more rows, or lower the agreement"
        )
    threshold = agreement.threshold(margins, agrees, most)
    ours = margins > threshold
    if not ours.any():
        raise InputError(
            f"{student}: it is sure of no row: the champion answers those with its greatest margins otherwise; take a "
            "better student, or lower the agreement"
        )
    shown = (len(margins), int((ours & ~agrees).sum()), float(ours.mean()))
    composition = Composition(threshold, goal.agreement, goal.confidence, *shown, number)
    _write(first.folder, second.folder, composition, out)
    return composition, answers.clearest()


def _opened(folder: Path) -> Predictor:
    if (folder / CASCADE_FILE).is_file():
        raise InputError(f"{folder}: it is a cascade; name one of the two models in it")
    if not (folder / ONNX_FILE).is_file():
        raise InputError(
            f"{folder}: no {ONNX_FILE}; a cascade is made of exports, so add its run to export: and run it"
        )
    predictor = Predictor.load(folder, "onnx")
    if predictor.task.kind not in KINDS:
        raise InputError(
            f"{folder}: it is of kind {predictor.task.kind}; a cascade needs one label a row: {', '.join(KINDS)}"
        )
    return predictor


def _require_alike(student: Predictor, champion: Predictor) -> None:
    """Raise InputError unless both read a row as the same tokens, and have the same labels."""
    other = [
        *(["kind"] if student.task.kind != champion.task.kind else []),
        *(["list of labels"] if student.task.labels != champion.task.labels else []),
        *(name for name in protocol.FILES[1:] if _bytes(student, name) != _bytes(champion, name)),
        *(["limit of length"] if student.max_length != champion.max_length else []),
    ]
    if other:
        raise InputError(
            f"{student.folder}: it has another {' and another '.join(other)} than {champion.folder}; take another one"
        )


def _bytes(predictor: Predictor, name: str) -> bytes:
    file = predictor.folder / name
    return file.read_bytes() if file.is_file() else b""


def _answers(student: Predictor, champion: Predictor, batches: Iterable[pa.RecordBatch]) -> Answers:
    answers, seen = Answers(), set[bytes]()
    for batch in batches:
        rows = input_rows(batch, student.task).drop_columns(["id"])
        digests = [digest.tobytes() for digest in row_digests.digests(pa.Table.from_batches([rows]))]
        first_of = {digest: number for number, digest in reversed([*enumerate(digests)])}
        new = sorted(number for digest, number in first_of.items() if digest not in seen)
        seen |= first_of.keys()
        if not new:
            continue
        rows = rows.take(pa.array(new))
        encoded = student.encode(rows)
        if not encoded.equals(champion.encode(rows)):
            raise InputError(
                f"{student.folder}: it reads a row as other tokens than {champion.folder}; take another student"
            )
        first, second = (np.stack(model.forward([encoded])[0]) for model in (student, champion))
        answers.add(cascade.margins(first), first.argmax(1) == second.argmax(1), rows.to_pylist())
    if not answers.margins:
        raise InputError("there are no rows to compare student and champion on")
    return answers


def _write(student: OpenedFolder, champion: OpenedFolder, composition: Composition, out: Path) -> None:
    for name in (*protocol.FILES, TASK_FILE):
        if (champion / name).is_file():
            shutil.copyfile(champion / name, out / name)
    for part, folder in ((STUDENT, student), (CHAMPION, champion)):
        (out / part).mkdir()
        for name in (ONNX_FILE, TASK_FILE):
            shutil.copyfile(folder / name, out / part / name)
    composition.write(out)
