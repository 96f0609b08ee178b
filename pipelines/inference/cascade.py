"""A cascade: an exported student answers the rows of which it is sure, and an exported champion answers the others."""

import threading
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from pydantic import Field, TypeAdapter, ValidationError

from pipelines.core import json_file, paths
from pipelines.core.errors import InputError, sentence
from pipelines.inference import runtimes
from pipelines.inference.runtimes import ALONE, ANY, CASCADE_FILE, PAIRS, Inputs

STUDENT, CHAMPION = "student", "champion"  # folders of a cascade, each with an export
KINDS = ("single", "pair")  # whose answer is one label a row
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class Composition:
    """The composition of a cascade: its threshold, and what the rows that chose it show."""

    threshold: float  # the student answers rows with a greater margin between its first two logits
    agreement: Share  # the least share of rows on which the cascade gives the champion's label
    confidence: Share  # of that share
    rows: int  # different rows that both models answered
    differing: int  # of these, rows that the cascade answers otherwise than the champion
    by_student: Share  # the share of the rows that the student answers
    champion: int  # the number of the registered version

    @classmethod
    def read(cls, folder: Path) -> "Composition":
        """The composition of the cascade in `folder`. Raises InputError if its file is damaged."""
        path = folder / CASCADE_FILE
        try:
            return _COMPOSITION.validate_python(json_file.mapping(path))
        except ValidationError as error:
            raise InputError(f"{path}: {sentence(error.errors()[0])}") from None

    def write(self, folder: Path) -> None:
        json_file.write(folder / CASCADE_FILE, asdict(self))


_COMPOSITION = TypeAdapter(Composition)


class ComparedRows:
    """Rows that a cascade lets the champion answer too, at random: how many, and how many of them differ."""

    def __init__(self, share: float = 0.0) -> None:
        """`share`: of all rows; those that the champion answers anyway cost nothing."""
        self.share = share
        self.rows = self.differing = 0
        self._random = np.random.default_rng()
        self._lock = threading.Lock()  # several threads run a model

    def drawn(self, rows: int) -> np.ndarray:
        """Choose rows of a batch of so many at random: (rows,) bool."""
        if not self.share:
            return np.zeros(rows, bool)
        with self._lock:
            return np.asarray(self._random.random(rows) < self.share)

    def count(self, rows: int, differing: int) -> None:
        with self._lock:
            self.rows += rows
            self.differing += differing


class Cascade:
    """Two exports in ONNX Runtime with the same tokenizer and labels.

    The answer for a row depends on its own margin alone, so it has the same bits in every batch, as those of both do.
    """

    name = "onnx"
    batch_tokens = runtimes.BATCH_TOKENS

    def __init__(self, folder: Path, threads: int = 0) -> None:
        self.composition, self.compared = Composition.read(folder), ComparedRows()
        self.student, self.champion = (
            runtimes.Onnx(paths.below(folder, name), threads=threads) for name in (STUDENT, CHAMPION)
        )
        self.task = self.champion.task
        if self.task.kind not in KINDS:
            raise InputError(f"{folder}: rows of kind {self.task.kind} have no margin between two labels")
        for name in ("kind", "labels"):
            if getattr(self.student.task, name) != getattr(self.task, name):
                raise InputError(f"{folder}: student and champion have other {name}; compose the cascade again")
        if self.student.vocab_size != self.champion.vocab_size:
            raise InputError(f"{folder}: student and champion have other vocabularies; compose the cascade again")
        self.vocab_size = self.champion.vocab_size
        self.positions = min(self.student.positions, self.champion.positions)
        ways = (self.student.batching, self.champion.batching)
        self.batching = next(way for way in (ALONE, PAIRS, ANY) if way in ways)

    def logits(self, inputs: Inputs) -> np.ndarray:
        """The logits of the model that answers each row, (B, C)."""
        logits = self.student.logits(inputs)
        unsure = margins(logits) <= self.composition.threshold
        compared = self.compared.drawn(len(logits))
        rows = np.flatnonzero(unsure | compared)
        of_champion = self._of_champion(inputs, rows) if len(rows) else logits[:0]
        differs = of_champion.argmax(1) != logits[rows].argmax(1)
        self.compared.count(int(compared.sum()), int((differs & ~unsure[rows]).sum()))
        logits[rows[unsure[rows]]] = of_champion[unsure[rows]]
        return logits

    def _of_champion(self, inputs: Inputs, rows: np.ndarray) -> np.ndarray:
        """The champion's logits for some rows of a batch."""
        twice = len(rows) == 1 and self.champion.batching == PAIRS
        together = np.repeat(rows, 2) if twice else rows
        return self.champion.logits({name: array[together] for name, array in inputs.items()})[: len(rows)]


def margins(logits: np.ndarray) -> np.ndarray:
    """The difference of the two greatest logits of each row, (N, C) to (N,): the log odds of the first two labels."""
    greatest = np.partition(logits, -2, axis=1)
    return np.asarray(greatest[:, -1] - greatest[:, -2])
