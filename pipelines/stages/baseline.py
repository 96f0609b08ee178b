"""baseline: score a method without a neural network, such as a TF-IDF linear SVM, that a model has to beat."""

from pipelines.core import params, paths, schema, stage, tables
from pipelines.core.task import Task
from pipelines.entries.baseline import Baseline
from pipelines.evaluation import record
from pipelines.evaluation.split import Split


def main(key: str) -> None:
    entry = params.entry("baseline", key, Baseline)
    from pipelines.evaluation import baselines

    rows = paths.rows(entry.task)
    task = Task.load(rows)
    schema.check_trained(task.kind)
    split = Split(rows / f"{entry.split}.parquet", task)
    train = tables.read(rows / f"{task.train}.parquet", schema=schema.ROWS[task.kind])  # all rows at once
    fitted = baselines.for_task(task, entry).fit(train)
    with paths.fresh_folder(paths.predictions(key)) as out:
        seconds = split.write(fitted.predict, out)
        timings = {
            "latency_ms": {"p50": round(seconds / split.rows * 1000, 3)},
            "rows_per_second": round(split.rows / seconds),
        }
        size = {"parameters": fitted.parameters, "size_bytes": fitted.parameters * 8}
        record.save(key, "baseline", entry, split, out, [rows], timings, how="baseline", model=size)


if __name__ == "__main__":
    stage.run("baseline", main)
