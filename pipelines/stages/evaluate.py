"""evaluate: predict a split, score it officially, measure size and latency."""

import time

from pipelines.core import entries, params, paths, provenance, stage, tables
from pipelines.evaluation import record


def main(key: str) -> None:
    entry = params.entry("evaluate", key, entries.Evaluate)
    from pipelines.inference import behaviour, cost
    from pipelines.inference.predictor import Predictor

    folder, rows = paths.model(key), paths.rows(entry.task)
    predictor = Predictor.load(folder)
    test = tables.read(rows / f"{entry.split}.parquet")
    start = time.perf_counter()
    answers = predictor.predict(test)
    seconds = time.perf_counter() - start
    facts = {
        "how": provenance.how(folder),
        "model": cost.size(folder),
        "truncated": predictor.truncated,
        "latency_ms": cost.latency(predictor, test),
        "rows_per_second": round(test.num_rows / seconds),
        "behaviour": behaviour.check(predictor, test, entry.behaviour),
    }
    record.save(key, "evaluate", entry, predictor.task, test, answers, [rows, folder], **facts)


if __name__ == "__main__":
    stage.run("evaluate", main)
