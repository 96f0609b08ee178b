"""One model in a process of its own, which interleaved.py asks over standard input: how long do its answers take?

    python -m pipelines.measurement.interleaved_worker FOLDER ROWS THREADS

ROWS is a Parquet file with the ids and inputs of some rows. The process answers one row, and says so in a line of JSON.
Then it takes a line of JSON for each turn, and ends with its standard input. It imports what the model's runtime needs
to answer, and until it has answered nothing else: what its start takes is what the start of a service takes.
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
    """Answer until standard input ends; an InputError is a line too, {"error": its sentence}."""
    say = _own_output()
    threads.use(int(count))
    try:
        _answer(Path(folder), Path(rows), say)
    except InputError as error:
        say({"error": str(error)})


def peak_mb() -> float:
    """The most memory that this process has held, in megabytes of 2**20 bytes.

    Linux counts in ru_maxrss what the parent held when it started this process; VmHWM is this program's own.
    """
    status = Path("/proc/self/status")
    if status.is_file():
        (line,) = (line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def _own_output() -> Callable[[dict[str, Any]], None]:
    """A function that writes a line where standard output went. Libraries print to standard error from here on."""
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
        said = _turn(predictor, rows, **json.loads(line))
        say(said | {"peak_mb": peak_mb()})


def _turn(predictor: Any, rows: Any, singles: int, together: int, batch: int) -> dict[str, Any]:
    """Answer `singles` rows one at a time, then `together` rows in calls of `batch` rows; both evenly spread.

    Returns:
        ms of each of the former, and the seconds that the latter took.
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
