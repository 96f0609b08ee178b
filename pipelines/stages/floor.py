"""floor: score what needs no network on the same rows, such as a TF-IDF linear SVM; a model must beat it."""

import time

from pipelines.core import entries, params, paths, schema, stage, tables
from pipelines.core.task import Task
from pipelines.evaluation import record


def main(key: str) -> None:
    entry = params.entry("floor", key, entries.Floor)
    from pipelines.inference import floor

    rows = paths.rows(entry.task)
    task, test = Task.load(rows), tables.read(rows / f"{entry.split}.parquet")
    schema.check_trained(task.kind)
    baseline = floor.for_task(task, entry).fit(tables.read(rows / f"{task.train}.parquet"))
    start = time.perf_counter()
    answers = baseline.predict(test)
    seconds = time.perf_counter() - start
    facts = {
        "how": "floor",
        "model": {"parameters": baseline.parameters, "size_bytes": baseline.parameters * 8},
        "latency_ms": {"p50": round(seconds / test.num_rows * 1000, 3)},
        "rows_per_second": round(test.num_rows / seconds),
    }
    record.save(key, "floor", entry, task, test, answers, [rows], **facts)


if __name__ == "__main__":
    stage.run("floor", main)
