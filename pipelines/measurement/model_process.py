"""One model in its own process: it predicts rows in turns, and its cost is computed from their times."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import IO, Any

import numpy as np

from pipelines.core.errors import InputError, one_line
from pipelines.core.threads import VARIABLES

ROOT = Path(__file__).resolve().parents[2]
WORKER = "pipelines.measurement.interleaved_worker"
BATCHES = (1, 8, 64, 512)  # rows in one call; the fastest of these counts


@dataclass(frozen=True)
class Cost:
    """The cost of one model on this machine. Times and rates are medians over the rounds."""

    p50_ms: float  # quantiles for one row at a time, with tokenization and decoding
    p95_ms: float
    p99_ms: float
    rows_per_second: float  # with `batch_rows` rows in each call
    batch_rows: int  # the fastest of BATCHES
    cold_start_s: float  # from the start of a process to its first prediction; the least of all starts
    peak_mb: float  # the peak memory of the process, in 2**20 bytes


@dataclass(frozen=True)
class Size:
    """The rows in one turn, one at a time and together; the same for all models."""

    singles: int
    together: int


@dataclass
class Model:
    """A process with a model, and the times of its turns."""

    folder: Path
    process: subprocess.Popen[str]
    errors: IO[bytes]  # what it writes to standard error
    cold_start_s: float = 0
    peak_mb: float = 0
    batch: int = 1
    p_ms: list[tuple[float, float, float]] = field(default_factory=list)  # p50, p95, p99 of each round
    rates: list[float] = field(default_factory=list)  # rows per second of each round

    def ask(self, singles: int, together: int, batch: int) -> dict[str, Any]:
        """Run one turn in the process; returns the reply of interleaved_worker.py."""
        assert self.process.stdin
        try:
            print(json.dumps({"singles": singles, "together": together, "batch": batch}), file=self.process.stdin)
            self.process.stdin.flush()
        except BrokenPipeError:
            pass  # `hear` raises the reason
        return self.hear()

    def hear(self) -> dict[str, Any]:
        """The next reply of the process. Raises InputError, with the folder, if it is an error or the process ended."""
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
        """Set `batch` to the fastest of BATCHES."""
        sizes = [batch for batch in BATCHES if batch <= size.together]
        self.batch = min(sizes, key=lambda batch: self.ask(0, size.together, batch)["seconds"])

    def turn(self, size: Size) -> None:
        """Run this model's turn of a round, and keep its times."""
        reply = self.ask(size.singles, size.together, self.batch)
        p50, p95, p99 = map(float, np.quantile(reply["ms"], [0.5, 0.95, 0.99]))
        self.p_ms.append((p50, p95, p99))
        self.rates.append(size.together / reply["seconds"])

    def cost(self) -> Cost:
        p50, p95, p99 = (median(percentile) for percentile in zip(*self.p_ms, strict=True))
        return Cost(p50, p95, p99, median(self.rates), self.batch, self.cold_start_s, self.peak_mb)

    def _reason(self) -> str:
        status = self.process.wait()
        if status < 0:
            return f"killed by {signal.Signals(-status).name}; is there enough memory?"
        self.errors.seek(0)
        lines = self.errors.read().decode(errors="replace").split("\n")
        last = next((line for line in reversed(lines) if line.strip()), "it printed nothing")
        return f"status {status}: {one_line(Exception(last))}"


@contextmanager
def started(folder: Path, sample: Path, threads: int, starts: int) -> Iterator[Model]:
    """Start a process with the model `starts` times in sequence; yields the last, with the least cold start."""
    took = []
    for _ in range(starts - 1):
        with _process(folder, sample, threads) as model:
            took.append(model.cold_start_s)
    with _process(folder, sample, threads) as model:
        model.cold_start_s = min([*took, model.cold_start_s])
        yield model


@contextmanager
def _process(folder: Path, sample: Path, threads: int) -> Iterator[Model]:
    """Start a process and wait for its first prediction; it ends with the block."""
    call = [sys.executable, "-P", "-m", WORKER, str(folder), str(sample), str(threads)]
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
