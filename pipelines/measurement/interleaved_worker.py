"""The worker process of interleaved.py: it opens one model, and times its predictions.

    python -m pipelines.measurement.interleaved_worker FOLDER ROWS THREADS

ROWS is a Parquet file with the ids and inputs of some rows. The process predicts one row, and writes a line of JSON.
Then it reads a line of JSON for each turn, and ends when standard input closes. Before the first prediction it imports
only what the model's runtime needs, so its start takes as long as the start of a service.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pipelines.core import threads
from pipelines.core.errors import InputError


def main(folder: str, rows: str, count: str) -> None:
    """Serve turns until standard input closes; an InputError is written as a line {"error": message}."""
    say = _own_output()
    threads.use(int(count))
    try:
        _answer(Path(folder), Path(rows), say)
    except InputError as error:
        say({"error": str(error)})


def peak_mb() -> float:
    """The peak memory of this process, in megabytes of 2**20 bytes.

    On Linux ru_maxrss includes the memory of the parent at the fork; VmHWM does not.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def _own_output() -> Callable[[dict[str, Any]], None]:
    """Redirect standard output to standard error, for libraries; returns a function that writes to the original one."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def say(line: dict[str, Any]) -> None:
        print(json.dumps(line), file=out, flush=True)

    return say


def _answer(folder: Path, file: Path, say: Callable[[dict[str, Any]], None]) -> None:
    import pyarrow.parquet as pq

    from pipelines.inference.predictor import Predictor

    rows, predictor = pq.read_table(file), Predictor.load(folder)
    predictor.predict(rows.slice(0, 1))
    say({"peak_mb": peak_mb()})
    for line in sys.stdin:
        turn_result = _turn(predictor, rows, **json.loads(line))
        say(turn_result | {"peak_mb": peak_mb()})


def _turn(predictor: Any, rows: Any, singles: int, together: int, batch: int) -> dict[str, Any]:
    """Predict `singles` rows one at a time, then `together` rows in calls of `batch` rows; both evenly spread.

    Returns:
        `ms`: the milliseconds of each single row. `seconds`: the time of all calls of `batch` rows.
    """
    import numpy as np

    from pipelines.measurement import cost

    def spread(count: int) -> Any:
        return rows.take(np.linspace(0, rows.num_rows - 1, count).astype(int))

    times, several = cost.one_at_a_time(predictor, spread(singles)), spread(together)
    start = time.perf_counter()
    for at in range(0, together, batch):
        predictor.predict(several.slice(at, batch))
    return {"ms": times, "seconds": time.perf_counter() - start}


if __name__ == "__main__":
    main(*sys.argv[1:])
