"""A scoring job by two processes against one, by the clock: nothing else may run on the machine.

Rows, model and threads are those of benchmarks/score.py; the start of a process and the loading of its model count.
"""

import tempfile
from pathlib import Path

import harness
import score
import serve

from pipelines.core import threads


def main() -> None:
    options = harness.arguments(__doc__ or "")
    rows, repeats = (score.QUICK_ROWS, 1) if options.quick else (score.ROWS, 3)
    threads.use(1)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        folder = serve.model(place)
        score.write_rows(place / "in", rows)
        seconds = harness.in_turn(
            {str(n): lambda n=n: score.scored(folder, place / "in", place / "out", workers=n) for n in (1, 2)}, repeats
        )
    claim = harness.ratio("two_processes_vs_one_by_the_clock", 1.8, seconds["1"], seconds["2"])
    harness.report([claim], ("onnxruntime", "pyarrow", "tokenizers"), options.json, rows=rows)


if __name__ == "__main__":
    main()
