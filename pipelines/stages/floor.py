"""floor: score a TF-IDF linear SVM on the same rows, which a model must beat."""

import time

from pipelines.core import params, paths, schema, stage, tables
from pipelines.core.task import Task
from pipelines.evaluation import record


def main(key: str) -> None:
    entry = params.entry("floor", key, params.Floor)
    from pipelines.inference.floor import LinearSvm

    rows = paths.rows(entry.task)
    task, test = Task.load(rows), tables.read(rows / f"{entry.split}.parquet")
    schema.check_trained(task.kind)
    svm = LinearSvm(task, entry).fit(tables.read(rows / f"{task.splits[0]}.parquet"))
    start = time.perf_counter()
    answers = svm.predict(test)
    seconds = time.perf_counter() - start
    facts = {
        "how": "floor",
        "model": {"parameters": svm.parameters, "size_bytes": svm.parameters * 8},
        "latency_ms": {"p50": round(seconds / test.num_rows * 1000, 3)},
        "rows_per_second": round(test.num_rows / seconds),
    }
    record.save(key, "floor", entry, task, test, answers, [rows], **facts)


if __name__ == "__main__":
    stage.run("floor", main)
