"""Whether drift is seen where it is, and not where it is not: windows of livedoor's titles against a profile of others.

The profile has 3,000 titles of all nine classes. 100 windows of 200 other titles are drawn for each case: of all
classes, which is no drift; of five classes; of one class. Labels are the rows' own. BERTLINE_MIRROR names the folder
with the corpora. `--quick` draws 20 windows.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

import harness
import numpy as np
import pyarrow as pa
import yaml

from pipelines.core import paths, tables
from pipelines.entries.watch import Watch
from pipelines.evaluation import drift
from pipelines.measurement import drift_profile
from pipelines.stages import ingest, prepare
from pipelines.text import tokenizer

ROOT = Path(__file__).resolve().parents[1]
PROFILE, WINDOW = 3000, 200
PARAMS = {
    "ingest": {"livedoor": {"corpus": "livedoor", "edition": "official"}},
    "prepare": {"titles": {"corpus": "livedoor", "source": "artifacts/raw/livedoor", "task": "title"}},
}


def titles() -> pa.Table:
    Path("params.yaml").write_text(yaml.safe_dump(PARAMS))
    ingest.main("livedoor")
    prepare.main("titles")
    rows = tables.read(paths.rows("titles") / "train.parquet")
    return rows.take(np.random.default_rng(1).permutation(rows.num_rows))


def main() -> None:
    options = harness.arguments(__doc__ or "")
    windows, here, limits = 20 if options.quick else 100, Path.cwd(), Watch().limits()
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        rows = titles()
        observed = drift_profile.observed(
            rows, rows.select(["label"]), tokenizer.load(ROOT / "encoders" / "mini-ja"), "single"
        )
        os.chdir(here)
    profile, others = observed.slice(0, PROFILE), observed.slice(PROFILE)
    labels = np.asarray(others.column("label").to_pylist())
    classes, generator, seconds = sorted(set(labels)), np.random.default_rng(2), []

    def drifted(of: int) -> list[set[str]]:
        """The statistics that drifted in each window of titles of the first `of` classes."""
        drifted_statistics, chosen = [], np.flatnonzero(np.isin(labels, classes[:of]))
        for _ in range(windows):
            window = others.take(generator.choice(chosen, WINDOW, replace=False))
            start = time.perf_counter()
            drifted_statistics.append(
                {shift.statistic for shift in drift.shifts(profile, window, limits) if shift.drifted}
            )
            seconds.append(time.perf_counter() - start)
        return drifted_statistics

    def share(name: str, hits: list[bool], aim: float | None, most: bool = False) -> harness.Claim:
        value = statistics.mean(hits)
        ok = aim is None or (value <= aim if most else value >= aim)
        return harness.Claim(name, aim, round(value, 3), (value, value), ok)

    usual, five, one_class = drifted(len(classes)), drifted(5), drifted(1)
    names = ("unknown_pieces", "unknown_words", "length", "vocabulary", "labels")
    claims = [share(f"windows_of_all_classes_that_drift_in_{n}", [n in w for w in usual], 0.05, True) for n in names]
    claims += [share(f"windows_of_five_classes_that_drift_in_{n}", [n in w for w in five], None) for n in names]
    claims += [
        share("windows_of_five_classes_that_drift", [bool(w) for w in five], 0.99),
        share("windows_of_one_class_that_drift_in_vocabulary", ["vocabulary" in w for w in one_class], 0.99),
        harness.Claim(
            "seconds_a_window",
            1.0,
            round(statistics.median(seconds), 3),
            (round(min(seconds), 3), round(max(seconds), 3)),
            statistics.median(seconds) <= 1,
        ),
    ]
    harness.report(claims, ("scipy", "numpy"), options.json)


if __name__ == "__main__":
    main()
