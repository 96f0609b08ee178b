"""The records that evaluate and baseline write for a run: its scores, and its timings on this machine, as JSON."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core import json_file, paths, provenance
from pipelines.core.progress import say
from pipelines.core.schema import SAYS, TARGETS
from pipelines.core.task import Task
from pipelines.entries.parts.scored import Scored
from pipelines.evaluation import one_answer
from pipelines.evaluation.analysis import analysis
from pipelines.evaluation.prediction_scores import labelled, score
from pipelines.evaluation.predictions import submission
from pipelines.evaluation.split import Split


def save(
    run: str,
    stage: str,
    entry: Scored,
    split: Split,
    out: Path,
    inputs: list[Path],
    timings: dict[str, Any],
    **facts: Any,
) -> None:
    """Score the predictions in `out`; write <run>.json in artifacts/metrics, scores and timings.

    Timings depend on the machine, so they are not a DVC output. A split without labels has no scores; the file for its
    leaderboard is written beside the predictions.

    Args:
        entry: the stage's params.
        out: the folder that holds the predictions of `split`; their provenance is written beside them.
        timings: latency_ms, rows_per_second.
        facts: how, model, ...
    """
    task, rows, answers = split.task, split.targets(), split.read(out)
    scored = labelled(rows, task)
    record = {
        "run": run,
        "task": entry.task,
        "kind": task.kind,
        "split": entry.split,
        "rows": rows.num_rows,
        "metric": task.metric,
        "metrics": {},
        **(score(rows, answers, task) | analysis(rows, answers, task, entry.slices, split.parts()) if scored else {}),
        **_only_answer(f"{stage} {run}", rows if scored else None, answers, task.kind),
        **facts,
    }
    if task.submission and not scored:
        submission(out / _board_file(task, entry.split), answers, task)
    provenance.write(out, stage, entry.model_dump(), inputs, ("numpy", "pyarrow"))
    for file, numbers in ((paths.metrics, record), (paths.scores, summary(record)), (paths.timings, timings)):
        json_file.write(file(run), numbers)


def _board_file(task: Task, split: str) -> str:
    """The file that a leaderboard takes for a split; GLUE's takes MNLI-m.tsv and MNLI-mm.tsv."""
    return task.submission.replace("-m.", "-mm.") if split.endswith("_mismatched") else task.submission


def summary(record: dict[str, Any]) -> dict[str, float]:
    """The numbers that DVC compares: the task's metric with its interval, and the loss at the end of training.

    There is no metric without labels, and no loss without a training.
    """
    numbers: dict[str, float] = {}
    if record["metrics"]:
        low, high = record["interval"]
        numbers = {record["metric"]: record["metrics"][record["metric"]], "low": low, "high": high}
    if curve := record.get("curve"):
        numbers["loss"] = curve[-1][1]["loss"]
    return numbers


def _only_answer(run: str, gold: pa.Table | None, answers: pa.Table, kind: str) -> dict[str, Any]:
    """{"only_answer": answer}, and a printed line, if all answers are equal; {} if not, or if all targets are too."""
    only = one_answer.only(value.as_py() for value in answers.column(SAYS[kind]))
    if not only or (gold is not None and one_answer.only(value.as_py() for value in gold.column(TARGETS[kind]))):
        return {}
    say(f"{run}: {one_answer.sentence(only[0], answers.num_rows)}")
    return {"only_answer": only[0]}
