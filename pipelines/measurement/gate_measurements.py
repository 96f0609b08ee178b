"""The measurements that the gate requires of a version, on current rows and with the predictor that serves."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core import paths, provenance
from pipelines.core.errors import InputError
from pipelines.core.schema import SAYS
from pipelines.core.task import Task
from pipelines.entries.evaluate import Evaluate
from pipelines.evaluation import analysis
from pipelines.evaluation.gates import Measured
from pipelines.evaluation.prediction_scores import metric_of_rows, score
from pipelines.evaluation.significance import OfRows
from pipelines.evaluation.split import Split
from pipelines.inference import onnx_numbers
from pipelines.inference.predictor import Predictor
from pipelines.measurement import behaviour_checks, cost, interleaved, runtime_choice


def measure(folder: Path, entry: Evaluate, approved: bool) -> Measured:
    """Open the model in `folder` and measure it on the split of an evaluate entry.

    The labels of the rows count. A model is wrong on rows with a label that it does not know, and where it predicts a
    label that the rows do not have.
    """
    onnx_numbers.require(folder)
    predictor, rows = Predictor.load(folder), paths.rows(entry.task)
    task = Task.load(rows)
    if predictor.task.kind != task.kind:
        raise InputError(f"{folder}: it is for rows of kind {predictor.task.kind}, {rows} has {task.kind}")
    split = Split(rows / f"{entry.split}.parquet", task)
    count, digest = split.rows, provenance.sha256(split.path)
    predictions, targets = split.predicted(predictor.predict), split.targets()
    answers = predictions.column(SAYS[task.kind]).to_pylist()
    judged = task.with_(labels=_labels(task, answers))
    value, latency = metric_of_rows(targets, predictions, judged), cost.latency(predictor, split)
    slices = analysis.slices(value, targets, task, entry.slices, split.parts())
    checks = behaviour_checks.check(predictor, split.parts, entry.behaviour)
    if provenance.sha256(split.path) != digest:
        raise InputError(f"{split.path}: a run replaced it while {folder} was measured on it; promote again")
    return Measured(
        metric=task.metric,
        rows=count,
        score=value,
        answers=answers,
        p95_ms=latency["p95"],
        size_bytes=sum(file.stat().st_size for end in ("safetensors", "onnx") for file in folder.rglob(f"*.{end}")),
        classes=_classes(targets, predictions, judged),
        slices={row["slice"]: row["score"] or 0.0 for row in slices},  # one without a score has 0
        behaviour=checks,
        approved=approved,
        digest=digest,
    )


def baseline(name: str, entry: Evaluate) -> OfRows:
    """The score of a baseline on the split of an evaluate entry, as a function of row numbers.

    Reads the predictions of the stage baseline. Raises InputError if there are none, or if they are of other rows.
    """
    rows = paths.rows(entry.task)
    task = Task.load(rows)
    split, place = Split(rows / f"{entry.split}.parquet", task), paths.predictions(name)
    file = place / f"{entry.split}.parquet"
    if not file.is_file():
        raise InputError(f"baseline {name}: {file}: no such file; `bertline run baseline@{name}` makes it")
    targets, answers = split.targets(), split.read(place)
    if not targets.column("id").equals(answers.column("id")):
        raise InputError(
            f"baseline {name}: it was scored on other rows; `bertline run baseline@{name}` scores it again"
        )
    return metric_of_rows(targets, answers, task)


def latency_ratio(challenger: Path, champion: Path, entry: Evaluate, threads: int) -> float:
    """The challenger's median latency divided by the champion's: the median over rounds in which both answer in turn.

    If each were measured alone, other work on the machine in between could decide the result.
    """
    split_file = paths.rows(entry.task) / f"{entry.split}.parquet"
    folders = {"champion": champion, "challenger": challenger}
    compared = interleaved.compare(folders, split_file, threads=threads, **runtime_choice.BRIEFLY)
    return 1 / compared["challenger"].faster[0]


def _labels(task: Task, answers: list[Any]) -> tuple[str, ...]:
    """The labels of the rows, followed by other labels that the model predicts."""
    if task.kind not in behaviour_checks.CLASSED:
        return task.labels
    return (*task.labels, *sorted({*answers} - {*task.labels}))


def _classes(targets: pa.Table, answers: pa.Table, task: Task) -> dict[str, float]:
    """F1 of each label."""
    return {label: numbers["f1"] for label, numbers in score(targets, answers, task).get("classes", {}).items()}
