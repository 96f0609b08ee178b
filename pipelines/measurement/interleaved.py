"""The cost of several models on this machine, measured in turn, so that the machine's noise affects all of them alike.

Each model is opened in a process of its own (interleaved_worker.py). The first model, the reference, stays open. Every
other model is opened beside it, measured in turn with it, and closed, so that memory holds two models at most. In every
second round the two change places. Each round gives a ratio of two numbers that were measured within seconds of each
other.

Rows are spread over the split, so they have the lengths of its texts. Throughput is measured at the best of BATCHES,
which is found for each model before the rounds. BATCHES are numbers of rows for one call of the predictor, which splits
them into batches of similar lengths and of at most BATCH_TOKENS tokens. 512 stands for a long file. The smaller numbers
are for models that are faster when their data fit into a CPU's caches.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from statistics import median
from typing import Any

from pipelines.core import tables
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.evaluation.split import Split
from pipelines.measurement.cost import SINGLE_ROWS
from pipelines.measurement.model_process import BATCHES, Cost, Model, Size, started

LEAST_ROWS = 16  # of one turn, however slow the reference is
Spread = tuple[float, float, float]  # median, least and greatest


class ReferenceEndedError(InputError):
    """The reference's process died, so nothing more can be compared with it."""


@dataclass(frozen=True)
class Compared:
    """A model's cost, and its ratios to the reference over the rounds. Above 1, the model is better."""

    cost: Cost
    faster: Spread  # the reference's p50_ms divided by the model's
    throughput: Spread  # the model's rows_per_second divided by the reference's


@dataclass(frozen=True)
class Reference:
    """The open model that others are compared with, and the rows that all of them predict."""

    model: Model
    sample: Path
    size: Size
    threads: int
    starts: int

    def beside(self, folder: Path, rounds: int) -> Compared:
        """Open another model, and measure it in turn with the reference.

        Raises InputError if the other model is of another kind, cannot be opened or dies, and ReferenceEndedError if
        the reference has died.
        """
        with self._opened(folder) as other:
            return _rounds(self.model, other, self.size, rounds)

    def ratios(self, folder: Path) -> Iterator[float]:
        """Open another model, and yield after each round the reference's p50 latency divided by the other's.

        Raises the errors of `beside`.
        """
        with self._opened(folder) as other:
            for number in count():
                _round(number, self.model, other, self.size)
                yield self.model.p_ms[-1][0] / other.p_ms[-1][0]

    @contextmanager
    def _opened(self, folder: Path) -> Iterator[Model]:
        _same_kind(folder, self.model.folder)
        try:
            with started(folder, self.sample, self.threads, self.starts) as other:
                other.find_batch(self.size)
                yield other
        except InputError as error:
            if self.model.process.poll() is None:
                raise
            raise ReferenceEndedError(str(error)) from None


@contextmanager
def opened(
    folder: Path, split_file: Path, threads: int = 1, starts: int = 2, seconds: float = 5
) -> Iterator[Reference]:
    """Open the model in `folder` as the reference; its process ends with the block.

    Args:
        split_file: rows of the model's kind, a file of rows/<task>.
        threads: the threads of each process; 0 leaves the number to the libraries.
        starts: how often each model is started. The first start may read from disk; the fastest one counts.
        seconds: about how long the reference takes for each half of a turn; this sets the number of rows.

    Raises:
        InputError: the folder cannot be opened, or does not fit the rows.
    """
    assert starts > 0, "starts must be at least 1"
    with tempfile.TemporaryDirectory(prefix="bertline-rows-") as place:
        sample = Path(place) / "rows.parquet"
        rows = _write_sample(Task.load(folder), split_file, sample)
        with started(folder, sample, threads, starts) as model:
            size = _size(model, rows, seconds)
            model.find_batch(size)
            yield Reference(model, sample, size, threads, starts)


def compare(folders: Mapping[str, Path], split_file: Path, rounds: int = 5, **how: Any) -> dict[str, Compared]:
    """Measure the models in `folders` (model folders or exported ones) in turn; the first is the reference.

    Args:
        folders: name -> folder. The ratios of the reference are 1 by definition.
        split_file: rows of the models' kind, a file of rows/<task>.
        how: the `threads`, `starts` and `seconds` of `opened`.

    Raises:
        InputError: a folder cannot be opened, does not fit the rows, or its process dies. No process is left.
    """
    assert folders, "folders must contain at least the reference"
    assert rounds > 0, "rounds must be at least 1"
    (first, at), *others = folders.items()
    with opened(at, split_file, **how) as reference:
        compared = {name: reference.beside(folder, rounds) for name, folder in others}
        for _ in range(0 if others else rounds):
            reference.model.turn(reference.size)
        return {first: Compared(reference.model.cost(), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))} | compared


def _same_kind(folder: Path, reference: Path) -> None:
    kind, expected = Task.load(folder).kind, Task.load(reference).kind
    if kind != expected:
        raise InputError(f"{folder}: it is for rows of kind {kind}, {reference} for {expected}")


def _write_sample(task: Task, split_file: Path, sample: Path) -> int:
    """Write rows spread over the split to `sample`, which each process reads; returns their number."""
    split = Split(split_file, task)
    if not split.rows:
        raise InputError(f"{split_file}: it has no rows")
    rows = split.spread(BATCHES[-1])
    return tables.write(sample, rows.to_batches(), rows.schema)


def _size(reference: Model, rows: int, seconds: float) -> Size:
    """The number of rows that the reference predicts one at a time in about `seconds`, within bounds."""
    enough = int(seconds * 1000 / median(reference.ask(min(5, rows), 0, 1)["ms"]))
    together = min(rows, max(LEAST_ROWS, enough))
    return Size(min(together, SINGLE_ROWS), together)


def _round(number: int, reference: Model, model: Model, size: Size) -> None:
    """Run one turn of each model; in every second round the two change places."""
    for measured in (reference, model) if number % 2 == 0 else (model, reference):
        measured.turn(size)


def _rounds(reference: Model, model: Model, size: Size, rounds: int) -> Compared:
    """Run the rounds of one model with the reference, and compare them."""
    for number in range(rounds):
        _round(number, reference, model, size)
    p50s = zip(reference.p_ms[-rounds:], model.p_ms, strict=True)
    rates = zip(reference.rates[-rounds:], model.rates, strict=True)
    return Compared(
        model.cost(),
        _spread([theirs[0] / ours[0] for theirs, ours in p50s]),
        _spread([ours / theirs for theirs, ours in rates]),
    )


def _spread(ratios: Sequence[float]) -> Spread:
    return median(ratios), min(ratios), max(ratios)
