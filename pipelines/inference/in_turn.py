"""What several models cost on this machine, measured in turn, so that its noise hits all of them alike.

Each model is opened in a process of its own (asked.py). The first of them, the reference, stays open. Every other one
is opened beside it, asked in turn with it, and ended, so that memory holds two models at most. In every second round
the two change places. Each round gives a ratio of two numbers that were measured within seconds of each other.

Rows are spread over the split, so that their lengths are those of its texts. Throughput is at the best of BATCHES,
which each model finds for itself before the rounds. These are the rows that one call of the predictor is given: of them
it makes batches of similar lengths and of at most BATCH_TOKENS tokens, so 512 stands for a long file, and the smaller
ones for models that are faster while less lies in a CPU's caches.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from statistics import median
from typing import IO, Any

import numpy as np

from pipelines.core import tables
from pipelines.core.errors import InputError, one_line
from pipelines.core.task import Task
from pipelines.core.threads import VARIABLES
from pipelines.evaluation.split import Split
from pipelines.inference.cost import SINGLE_ROWS

ROOT = Path(__file__).resolve().parents[2]
BATCHES = (1, 8, 64, 512)  # rows of one call, of which the best counts
LEAST_ROWS = 16  # of a pass, however slow the reference is
Spread = tuple[float, float, float]  # median, least and greatest


class ReferenceEndedError(InputError):
    """The reference's process died, so that nothing more can be measured beside it."""


@dataclass(frozen=True)
class Cost:
    """What one model costs on this machine. Times and rates are medians over the rounds."""

    p50_ms: float  # quantiles of one row at a time, its text's tokenization and its answer's decoding included
    p95_ms: float
    p99_ms: float
    rows_per_second: float  # at the best batch
    batch_rows: int  # that batch
    cold_start_s: float  # from starting a process to its first answer, the least of all starts
    peak_mb: float  # the most memory that the process held, in 2**20 bytes


@dataclass(frozen=True)
class Compared:
    """A model's cost, and how it stands to the reference by round. Above 1 it is the better one."""

    cost: Cost
    faster: Spread  # the reference's p50_ms to this one's
    throughput: Spread  # this one's rows_per_second to the reference's


@dataclass(frozen=True)
class Size:
    """How many rows a turn answers: the same for all models."""

    singles: int
    together: int


@dataclass
class Model:
    """A process with a model, and what its turns took."""

    folder: Path
    process: subprocess.Popen[str]
    errors: IO[bytes]  # what it writes to standard error
    cold_start_s: float = 0
    peak_mb: float = 0
    batch: int = 1
    p_ms: list[tuple[float, float, float]] = field(default_factory=list)  # p50, p95, p99 of each round
    rates: list[float] = field(default_factory=list)  # rows per second of each round

    def ask(self, singles: int, together: int, batch: int) -> dict[str, Any]:
        """One turn, as asked.py counts it."""
        assert self.process.stdin
        try:
            print(json.dumps({"singles": singles, "together": together, "batch": batch}), file=self.process.stdin)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # `hear` says why
        return self.hear()

    def hear(self) -> dict[str, Any]:
        """The next line of the process. Raises InputError, one sentence with the folder, if it says or has none."""
        assert self.process.stdout
        if not (line := self.process.stdout.readline()):
            raise InputError(f"{self.folder}: its process ended while it was measured ({self._reason()})")
        reply = json.loads(line)
        if "error" in reply:
            error = reply["error"]
            raise InputError(error if str(self.folder) in error else f"{self.folder}: {error}")
        self.peak_mb = reply["peak_mb"]
        return reply

    def find_batch(self, size: Size) -> None:
        """Take the best of BATCHES."""
        sizes = [batch for batch in BATCHES if batch <= size.together]
        self.batch = min(sizes, key=lambda batch: self.ask(0, size.together, batch)["seconds"])

    def turn(self, size: Size) -> None:
        """This model's part of a round."""
        reply = self.ask(size.singles, size.together, self.batch)
        p50, p95, p99 = map(float, np.quantile(reply["ms"], [0.5, 0.95, 0.99]))
        self.p_ms.append((p50, p95, p99))
        self.rates.append(size.together / reply["seconds"])

    def cost(self) -> Cost:
        p50, p95, p99 = (median(each) for each in zip(*self.p_ms, strict=True))
        return Cost(p50, p95, p99, median(self.rates), self.batch, self.cold_start_s, self.peak_mb)

    def _reason(self) -> str:
        status = self.process.wait()
        if status < 0:
            return f"by the signal {signal.Signals(-status).name}; is there enough memory?"
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "it said nothing")
        return f"status {status}: {one_line(Exception(last))}"


@dataclass(frozen=True)
class Reference:
    """The model that others are compared with, opened, and the rows that all are asked."""

    model: Model
    sample: Path
    size: Size
    threads: int
    starts: int

    def beside(self, folder: Path, rounds: int) -> Compared:
        """Open another model, and measure it in turn with this one.

        Raises InputError if it is of another kind, cannot be opened or dies, and ReferenceEndedError if this one has.
        """
        with self._opened(folder) as other:
            return _rounds(self.model, other, self.size, rounds)

    def ratios(self, folder: Path) -> Iterator[float]:
        """Open another model, and yield after each round how many times as fast as this one it answers a row alone.

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
            with _started(folder, self.sample, self.threads, self.starts) as other:
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
    """The model in `folder` as the reference; whatever happens, its process ends.

    Args:
        split_file: rows of the model's kind, a file of rows/<task>.
        threads: of every process; 0 leaves it to the libraries.
        starts: processes of each model. The first start may read the disk; the fastest one counts.
        seconds: about what the reference may take for each half of a turn; the number of rows follows from it.

    Raises:
        InputError: the folder cannot be opened, or does not fit the rows.
    """
    assert starts > 0, "a model that is not started does not answer"
    with tempfile.TemporaryDirectory(prefix="bertline-rows-") as place:
        sample = Path(place) / "rows.parquet"
        rows = _write_sample(Task.load(folder), split_file, sample)
        with _started(folder, sample, threads, starts) as model:
            size = _size(model, rows, seconds)
            model.find_batch(size)
            yield Reference(model, sample, size, threads, starts)


def compare(folders: Mapping[str, Path], split_file: Path, rounds: int = 5, **how: Any) -> dict[str, Compared]:
    """Measure the models in `folders` (model folders or exported ones) in turn; the first is the reference.

    Args:
        folders: name -> folder. The reference is compared with itself by definition: its ratios are 1.
        split_file: rows of the models' kind, a file of rows/<task>.
        how: the `threads`, `starts` and `seconds` of `opened`.

    Raises:
        InputError: a folder cannot be opened, does not fit the rows, or its process dies. No process is left.
    """
    assert folders, "at least the reference is to be measured"
    assert rounds > 0, "a ratio needs a round"
    (first, at), *others = folders.items()
    with opened(at, split_file, **how) as reference:
        compared = {name: reference.beside(folder, rounds) for name, folder in others}
        for _ in range(0 if others else rounds):
            reference.model.turn(reference.size)
        return {first: Compared(reference.model.cost(), (1.0, 1.0, 1.0), (1.0, 1.0, 1.0))} | compared


def _same_kind(folder: Path, reference: Path) -> None:
    own, first = Task.load(folder).kind, Task.load(reference).kind
    if own != first:
        raise InputError(f"{folder}: it is for rows of kind {own}, {reference} for {first}")


def _write_sample(task: Task, split_file: Path, sample: Path) -> int:
    """Write rows spread over the split to `sample`, which each process reads instead of the whole split."""
    split = Split(split_file, task)
    if not split.rows:
        raise InputError(f"{split_file}: it has no rows")
    rows = split.spread(BATCHES[-1])
    return tables.write(sample, rows.to_batches(), rows.schema)


def _size(reference: Model, rows: int, seconds: float) -> Size:
    """As many of `rows` as the reference answers one at a time in about `seconds`, within bounds."""
    enough = int(seconds * 1000 / median(reference.ask(min(5, rows), 0, 1)["ms"]))
    together = min(rows, max(LEAST_ROWS, enough))
    return Size(min(together, SINGLE_ROWS), together)


def _round(number: int, reference: Model, model: Model, size: Size) -> None:
    """One turn of each; in every second round the two change places."""
    for each in (reference, model) if number % 2 == 0 else (model, reference):
        each.turn(size)


def _rounds(reference: Model, model: Model, size: Size, rounds: int) -> Compared:
    """The rounds of one model with the reference."""
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


@contextmanager
def _started(folder: Path, sample: Path, threads: int, starts: int) -> Iterator[Model]:
    """The model in the last of `starts` processes, one after the other."""
    took = []
    for _ in range(starts - 1):
        with _process(folder, sample, threads) as model:
            took.append(model.cold_start_s)
    with _process(folder, sample, threads) as model:
        model.cold_start_s = min([*took, model.cold_start_s])
        yield model


@contextmanager
def _process(folder: Path, sample: Path, threads: int) -> Iterator[Model]:
    """A new process that has answered its first row; it is ended whatever happens."""
    call = [sys.executable, "-P", "-m", "pipelines.inference.asked", str(folder), str(sample), str(threads)]
    environment = os.environ | (dict.fromkeys(VARIABLES, str(threads)) if threads else {})
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "encoding": "utf-8"}
    with tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(call, stderr=errors, env=environment, **pipes)
        try:
            model = Model(folder, process, errors)
            model.hear()
            model.cold_start_s = time.perf_counter() - start
            yield model
        finally:
            process.kill()
            process.communicate()  # waits for its end, and closes the pipes
