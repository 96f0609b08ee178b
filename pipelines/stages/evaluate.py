"""evaluate: predict a split, score it with the official metric, and measure size and latency."""

from pipelines.core import params, paths, provenance, resources, stage
from pipelines.core.opened_folder import OpenedFolder
from pipelines.entries.evaluate import Evaluate
from pipelines.evaluation import record
from pipelines.evaluation.split import Split


def main(key: str) -> None:
    entry = params.entry("evaluate", key, Evaluate)
    from pipelines.compression import variant
    from pipelines.inference.predictor import Predictor
    from pipelines.measurement import behaviour_checks, cost

    opened, rows = OpenedFolder(paths.model(key)), paths.rows(entry.task)
    predictor = Predictor.load(opened, accelerate=resources.read("evaluate", key).acceleration)
    split = Split(rows / f"{entry.split}.parquet", predictor.task)
    with paths.fresh_folder(paths.predictions(key)) as out:
        seconds = split.write(predictor.predict, out)
        facts = {
            "how": provenance.how(opened.path),
            "curve": provenance.curve(opened.path),
            **variant.facts(opened),
            "truncated": predictor.truncated,
            "behaviour": behaviour_checks.check(predictor, split.parts, entry.behaviour),
        }
        timings = {"latency_ms": cost.latency(predictor, split), "rows_per_second": round(split.rows / seconds)}
        record.save(key, "evaluate", entry, split, out, [rows, opened.path], timings, **facts)


if __name__ == "__main__":
    stage.run("evaluate", main)
