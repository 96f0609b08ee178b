"""A scoring job by two processes against one, by the clock: nothing else may run on the machine.

Rows, model and threads are those of benchmarks/score.py. A process takes seconds to start and to load its model, so two
jobs of different size are timed: what more rows take is said apart from a whole job.
"""

import tempfile
from pathlib import Path

import harness

TIMES = 4  # as many rows has the larger job


def main() -> None:
    # not at the top, which each process of a job imports again
    import score
    import serve

    from pipelines.core import threads

    options = harness.arguments(__doc__ or "")
    rows, repeats = (score.QUICK_ROWS, 1) if options.quick else (score.ROWS, 3)
    threads.use(1)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        folder = serve.model(place)
        jobs = {}
        for size in (rows, TIMES * rows):
            score.write_rows(place / str(size), size)
            for workers in (1, 2):
                jobs[f"{workers} {size}"] = lambda size=size, workers=workers: score.scored(
                    folder, place / str(size), place / "out", workers=workers
                )
        seconds = harness.in_turn(jobs, repeats)
    more = {}
    for workers in (1, 2):
        pairs = zip(seconds[f"{workers} {rows}"], seconds[f"{workers} {TIMES * rows}"], strict=True)
        more[workers] = [larger - smaller for smaller, larger in pairs]
    claims = [
        harness.ratio("more_rows_by_two_processes_vs_one", 1.8, more[1], more[2]),
        harness.ratio(f"{rows}_rows_by_two_processes_vs_one", None, seconds[f"1 {rows}"], seconds[f"2 {rows}"]),
    ]
    harness.report(claims, ("onnxruntime", "pyarrow", "tokenizers"), options.json, rows=rows)


if __name__ == "__main__":
    main()
