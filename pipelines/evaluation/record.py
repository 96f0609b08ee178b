"""What evaluate and floor leave behind: predictions as Parquet, the scores and costs of a run as JSON."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core import paths, provenance, tables
from pipelines.core.entries import Scored
from pipelines.core.task import Task
from pipelines.evaluation.analysis import analysis
from pipelines.evaluation.predictions import submission
from pipelines.evaluation.score import labelled, score


def save(
    run: str,
    stage: str,
    entry: Scored,
    task: Task,
    rows: pa.Table,
    answers: pa.Table,
    inputs: list[Path],
    **facts: Any,
) -> None:
    """Write artifacts/predictions/<run> and artifacts/metrics/<run>.json.

    A split without labels has no scores; the file that its leaderboard takes stands beside the predictions then.

    Args:
        entry: the stage's params.
        rows, answers: the split and its predictions.
        facts: how, model, latency_ms, rows_per_second, ...
    """
    split, scored = entry.split, labelled(rows, task)
    record = {
        "run": run,
        "task": entry.task,
        "kind": task.kind,
        "split": split,
        "rows": rows.num_rows,
        "metric": task.metric,
        **(score(rows, answers, task) if scored else {"metrics": {}}),
        **(analysis(rows, answers, task, entry.slices) if scored else {}),
        **facts,
    }
    with paths.fresh_folder(paths.predictions(run)) as out:
        tables.write(out / f"{split}.parquet", answers.to_batches(), answers.schema)
        if task.submission and not scored:
            submission(out / task.submission, answers, task)
        provenance.write(out, stage, entry.model_dump(), inputs, ("numpy", "pyarrow"))
    with paths.fresh_file(paths.metrics(run)) as aside:
        aside.write_text(json.dumps(record, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
