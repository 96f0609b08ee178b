"""An evaluated run: its record, its answers in the order of the rows, and the params that made it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core import metrics_file, paths, provenance
from pipelines.core.errors import InputError, UsageError
from pipelines.core.schema import INPUTS, SAYS, TARGETS
from pipelines.core.task import Task
from pipelines.evaluation.split import Split


@dataclass(frozen=True)
class Run:
    """One evaluated run.

    Attributes:
        answers: its predictions (schema.PREDICTIONS), in the order of the rows of its split.
        params: those that made it, with its stage.
    """

    name: str
    record: dict[str, Any]
    answers: pa.Table
    params: dict[str, Any]

    @classmethod
    def of(cls, name: str, record: dict[str, Any], split: Split) -> "Run":
        """The run with this record. Raises InputError if a row of the split has no answer."""
        answers = split.read(paths.predictions(name))
        places = pc.index_in(split.targets().column("id"), value_set=answers.column("id"))
        if places.null_count:
            raise InputError(
                f"{paths.predictions(name)}: {places.null_count} rows have no answer; evaluate {name} again"
            )
        made = provenance.read(paths.model(name)) or provenance.read(paths.predictions(name))
        return cls(name, record, answers.take(places), {"stage": made.get("stage", "-"), **made.get("params", {})})

    @property
    def patterns(self) -> dict[str, str]:
        """The slices that its entry names."""
        slices: dict[str, str] = provenance.read(paths.predictions(self.name)).get("params", {}).get("slices", {})
        return slices

    def says(self, split: Split) -> list[Any]:
        """Its answer for each row."""
        answers: list[Any] = self.answers.column(SAYS[split.task.kind]).to_pylist()
        return answers


def record(run: str) -> dict[str, Any]:
    """The metrics of a run. Raises UsageError if it was not evaluated, or answers no rows."""
    if not paths.metrics(run).is_file():
        raise UsageError(f"{paths.metrics(run)}: no such run is evaluated; `bertline table` lists those that are")
    metrics = metrics_file.read(run)
    if "task" not in metrics:
        raise UsageError(f"{run} is an encoder: it answers no rows; name a run of evaluate or baseline")
    return metrics


def split(metrics: dict[str, Any]) -> Split:
    """The rows that a run with these metrics answered."""
    folder = paths.rows(metrics["task"])
    return Split(folder / f"{metrics['split']}.parquet", Task.load(folder))


def digest(run: str, task: str) -> Any:
    """The digest of the rows of a task that a run answered; None if it is not known."""
    return provenance.read(paths.predictions(run)).get("inputs", {}).get(str(paths.rows(task)))


def with_texts(chosen: Iterable[int], split: Split) -> list[dict[str, Any]]:
    """{"id", "inputs", "gold"} of each row with one of these numbers, in their order."""
    numbers = [int(number) for number in chosen]
    targets = split.targets().column(TARGETS[split.task.kind])
    lines: dict[int, dict[str, Any]] = {}
    start = 0
    for part in split.parts():
        for place in sorted(set(numbers) & set(range(start, start + part.num_rows))):
            row = part.slice(place - start, 1).to_pylist()[0]
            inputs = {name: row[name] for name in INPUTS[split.task.kind]}
            lines[place] = {"id": row["id"], "inputs": inputs, "gold": targets[place].as_py()}
        start += part.num_rows
    return [lines[number] for number in numbers]
