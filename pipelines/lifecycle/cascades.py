"""Cascades: a run as student and a registered version as champion, composed and registered as the challenger."""

import json
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core import locks, params, paths, provenance, resources, tables
from pipelines.core.errors import InputError
from pipelines.core.schema import INPUTS
from pipelines.core.task import Task
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.export import Export
from pipelines.entries.promote import Promote
from pipelines.evaluation import agreement
from pipelines.evaluation.split import PART_BYTES, PART_ROWS
from pipelines.graph import dvc_steps, import_closure
from pipelines.inference.cascade import Composition
from pipelines.lifecycle import registration
from pipelines.measurement import cascade_folder, interleaved, runtime_choice
from pipelines.measurement.cascade_folder import Goal
from pipelines.measurement.smoke_answers import SmokeAnswers
from pipelines.tracking import registry
from pipelines.tracking.ledger_events import CHAMPION

TAG = "cascade"  # the composition and the speed, as JSON


@dataclass(frozen=True)
class Cascade:
    """A registered cascade; `faster` is its rows a second as a multiple of the champion's: median, least, greatest."""

    version: registry.Version
    composition: Composition
    faster: tuple[float, float, float]

    def facts(self) -> dict[str, Any]:
        return {"model": self.version.name, "version": self.version.version, **_facts(self.composition, self.faster)}


def register(
    name: str, student: str, goal: Goal, rows: Path | None = None, champion: int | None = None, image_commit: str = ""
) -> Cascade:
    """Compose a cascade of the run `student` and the champion of `name`, and make it the challenger.

    Args:
        goal: the share of rows that must get the champion's label, and its confidence.
        rows: a Parquet file with the inputs of the task; by default a split of it that is neither trained on nor
            measured by the gate.
        champion: the number of another version than the champion.

    Raises:
        InputError: there is no such version or export, the models do not fit each other, or too few rows show it.
    """
    rules = params.entry("promote", name, Promote)
    params.entry("export", student, Export)
    entry = params.entry("evaluate", rules.run, Evaluate)
    champion_version = registry.version(name, champion) if champion is not None else registry.get(name, CHAMPION)
    with locks.claim_entry(*dvc_steps.WORKSPACE), tempfile.TemporaryDirectory() as place:
        exported, out = paths.onnx(student), Path(place) / "onnx"
        if not exported.is_dir():
            raise InputError(f"{exported}: no such folder; `bertline run export@{student}` makes it")
        out.mkdir()
        folder = registry.folder(champion_version, "onnx")
        rows = rows or _held_out(entry)
        batches = _batches(rows, Task.load(folder).kind)
        composition, examples = cascade_folder.compose(exported, folder, batches, goal, champion_version.version, out)
        faster = _faster(folder, out, entry)
        smoke = Path(place) / "smoke.json"
        SmokeAnswers.of(out, "onnx", examples).write(smoke)
        tags = _tags(student, champion_version, out, image_commit) | {TAG: json.dumps(_facts(composition, faster))}
        code = import_closure.copy(registration.CODE, Path(place))
        kind, profile = Task.load(out).kind, registry.profile_of(champion_version)
        version = registry.register(name, None, code, kind, examples[0], tags, out, profile, smoke)
    return Cascade(version, composition, faster)


def plain(facts: dict[str, Any]) -> str:
    """The facts of a registered cascade in words."""
    name, number, champion = (facts[key] for key in ("model", "version", "champion"))
    speed = facts["rows_per_second_of_champion"]
    most = agreement.upper_bound(facts["differing"], facts["rows"], facts["confidence"])
    return "\n".join(
        (
            f"{name} version {number} is the challenger: a cascade of a student and version {champion}",
            f"the student answers {facts['by_student']:.1%} of {facts['rows']:,} rows, {facts['differing']:,} of them "
            f"otherwise than the champion: below {most:.2%} of all rows at a confidence of {facts['confidence']:g}",
            f"{speed['median']:.2f} times the champion's rows/s ({speed['least']:.2f} to {speed['greatest']:.2f})",
        )
    )


def _held_out(entry: Evaluate) -> Path:
    """The rows of a split of a task that no model was trained on, and that the gate does not measure on."""
    folder = paths.rows(entry.task)
    splits = [split for split in Task.load(folder).splits if split not in ("train", entry.split)]
    if not splits:
        raise InputError(
            f"{folder}: it has no split but train and {entry.split}, on which the gate measures; name rows by --rows"
        )
    return folder / f"{'dev' if 'dev' in splits else splits[0]}.parquet"


def _batches(rows: Path, kind: str) -> Iterator[pa.RecordBatch]:
    return tables.read_batches(rows, INPUTS[kind], PART_ROWS, PART_BYTES)


def _faster(champion: Path, composed: Path, entry: Evaluate) -> tuple[float, float, float]:
    """The cascade's rows a second as a multiple of the champion's, measured in turn."""
    folders, threads = {"champion": champion, "cascade": composed}, resources.read().threads
    split_file = paths.rows(entry.task) / f"{entry.split}.parquet"
    return interleaved.compare(folders, split_file, threads=threads, **runtime_choice.BRIEFLY)["cascade"].throughput


def _tags(student: str, champion: registry.Version, composed: Path, image_commit: str) -> dict[str, str]:
    """The provenance of the student's run, with the digest of the cascade and the champion as its teacher."""
    digest = provenance.content_digest(composed)
    teachers = json.dumps([{"model": champion.name, "version": champion.version}])
    of_cascade = {**dict.fromkeys(registry.SAME, digest), registry.TEACHERS: teachers}
    return registration.provenance_tags(student, image_commit) | of_cascade


def _facts(composition: Composition, faster: tuple[float, float, float]) -> dict[str, Any]:
    ratios = dict(zip(("median", "least", "greatest"), (round(ratio, 3) for ratio in faster), strict=True))
    return asdict(composition) | {"rows_per_second_of_champion": ratios}
