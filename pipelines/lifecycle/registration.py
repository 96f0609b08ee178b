"""Registration: an MLflow run for each stage that ran, and a run of the graph as the challenger of its name."""

import json
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from pipelines.core import json_file, params, paths, provenance, resources, tables
from pipelines.core.progress import say
from pipelines.core.schema import INPUTS
from pipelines.core.task import Task
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.graph import baselines_to_beat, executor, import_closure, lockfile
from pipelines.lifecycle import model_card, version_card
from pipelines.measurement import drift_profile, runtime_choice, smoke_answers
from pipelines.measurement.smoke_answers import SmokeAnswers
from pipelines.tracking import registry, runs, version_tags

CODE = "pipelines/serving/registered.py"
MODEL_STAGES = ("finetune", "compress", "export", "evaluate")  # of a run
CODE_AND_PARAMS = ("flows", "pipelines", "dvc.yaml", "params.yaml")  # Makefile has them too
DIRTY = "-dirty"  # at the end of a commit: what ran differs from it


def log_runs(stages: list[str], image_commit: str = "") -> None:
    """Log an MLflow run for each stage that ran; that of the report has its page and tables.

    `image_commit` is the commit of an image, which has no checkout.
    """
    values, locked = params.read(), lockfile.locked()
    commit = git_commit(image_commit)
    for stage in stages:
        section, _, entry = stage.partition("@")
        outputs = lockfile.outputs(stage, locked)
        records = [json.loads(Path(path).read_text()) for path in outputs if path.endswith(".json")]
        recorded = (provenance.curve(Path(path)) for path in outputs)
        curve = [(step, numbers) for step, numbers in next(filter(None, recorded), [])]
        numbers: dict[str, Any] = {}
        for record in records:
            numbers |= {k: record[k] for k in ("metrics", "model") if k in record}
        if (took := paths.timings(entry)).is_file() and records:
            numbers |= json_file.mapping(took)
        if curve:
            numbers["final_loss"] = curve[-1][1]["loss"]
        tags = {f"md5 {path}": md5 for path, md5 in outputs.items()} | commit
        shown = paths.reports() if str(paths.reports()) in outputs else None
        seconds, *times = _time_of(stage)
        if seconds is not None:
            numbers["seconds"] = seconds
        written = lockfile.entry(stage, locked) or (values.get(section) or {}).get(entry) or {}
        runs.log(stage, _params(outputs, written), numbers, tags, shown, curve, *times)


def _params(outputs: Iterable[str], written: dict[str, Any]) -> dict[str, Any]:
    """The params of a stage, defaults too, as its output records them; else those that were written."""
    recorded = (provenance.read(Path(path)).get("params") for path in outputs if not path.endswith(".json"))
    return written | next((made for made in recorded if made), {})


def _time_of(stage: str) -> tuple[float, int, int] | tuple[None, None, None]:
    """The seconds of a stage, and its start and its end in ms since 1970; None if it did not run here."""
    seconds, log = executor.seconds().get(stage), executor.log_of(stage)
    if seconds is None or not log.is_file():
        return None, None, None
    ended = round(log.stat().st_mtime * 1000)
    return seconds, ended - round(seconds * 1000), ended


def register(name: str, image_commit: str = "") -> registry.Version:
    """Make the run that promote.<name> names the challenger; the same model has one version, and is measured once."""
    rules = params.entry("promote", name, Promote)
    folder = paths.model(rules.run)
    tags = provenance_tags(rules.run, image_commit)
    kind = Task.load(folder).kind
    exported = paths.onnx(rules.run) if tags["md5_onnx"] else None
    entry = params.entry("evaluate", rules.run, Evaluate)
    with tempfile.TemporaryDirectory() as place:
        profile = smoke = None
        code = import_closure.copy(CODE, Path(place))  # a version brings what opens it, and no more
        if not registry.same(name, tags):
            tags |= runtime_choice.tags(folder, exported, _rows(entry), resources.read())
            tags |= version_card.tags(folder, rules.run, model_card.entries("promote")[name])
            profile = Path(place) / "profile.parquet"
            pq.write_table(drift_profile.of_run(rules.run, entry.task, entry.split), profile, compression="zstd")
            smoke = Path(place) / "smoke.json"
            opened = exported if exported and tags[registry.RUNTIME] == "onnx" else folder
            SmokeAnswers.of(opened, tags[registry.RUNTIME], _first(entry, kind, smoke_answers.ROWS)).write(smoke)
        (example,) = _first(entry, kind, 1)
        version = registry.register(name, folder, code, kind, example, tags, exported, profile, smoke)
    version_tags.link(version)
    return version


def needed(names: list[str]) -> list[str]:
    """The stages that make these models, score them, and score the baselines that they must beat."""
    sections, stages = params.read(), list[str]()
    for name in names:
        rules = params.entry("promote", name, Promote)
        made_by = [stage for stage in MODEL_STAGES if rules.run in (sections.get(stage) or {})]
        stages += [f"{section}@{rules.run}" for section in made_by]
        entry = params.entry("evaluate", rules.run, Evaluate)
        stages += [f"baseline@{baseline}" for baseline in baselines_to_beat.names(name, entry, rules)]
    return stages


def unlogged(names: list[str]) -> list[str]:
    """The stages before these models and their scores of which there is no run.

    They ran in an attempt that failed later, or without a flow: in `bertline run` or `dvc repro`.
    """
    locked, wrote_by_stage = lockfile.locked(), dict[str, dict[str, str]]()
    for run in (params.entry("promote", name, Promote).run for name in names):
        for section in MODEL_STAGES:
            wrote_by_stage |= {
                record["stage"]: record["wrote"] for record in lockfile.made_of(f"{section}@{run}", locked)
            }
    return [stage for stage, wrote in wrote_by_stage.items() if not runs.find(stage, wrote)]


def git_commit(image: str = "") -> dict[str, str]:
    """The checkout's commit, and whether code or params differ from it; outside git that of the `image`, or nothing.

    What else changed is no edit: the digests of data and weights are stamped on the version beside this. The commit of
    an image ends with `-dirty` if it was built of edited code or params.
    """
    outside = {"git_commit": image.removesuffix(DIRTY)} if image else {}
    if image.endswith(DIRTY):
        outside["git_dirty"] = "true"
    try:
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return outside
    if head.returncode:
        return outside
    changed = ["git", "status", "--porcelain", "--", *CODE_AND_PARAMS]
    status = subprocess.run(changed, capture_output=True, text=True, check=False)
    return {"git_commit": head.stdout.strip(), "git_dirty": str(bool(status.stdout.strip())).lower()}


def provenance_tags(run: str, image_commit: str = "") -> dict[str, str]:
    """The origin of a run's model: its params, the commit, and the md5s of the model, its export and all before it."""
    values, locked = params.read(), lockfile.locked()
    section = "finetune" if run in (values.get("finetune") or {}) else "compress"
    md5 = lockfile.outputs(f"{section}@{run}", locked).get(str(paths.model(run)), "")
    exported = lockfile.outputs(f"export@{run}", locked) if run in (values.get("export") or {}) else {}
    md5s = {"md5": md5, "md5_onnx": exported.get(str(paths.onnx(run)), "")}
    chain = lockfile.made_of(f"export@{run}" if exported else f"{section}@{run}", locked)
    chain = [stage | {"run": runs.find(stage["stage"], stage["wrote"])} for stage in chain]
    ran_with = lockfile.entry(f"{section}@{run}", locked) or values[section][run]
    if ran_with != values[section][run]:
        say(f"{run}: {params.FILE} was edited since it was trained; the version names the params of its training")
    facts = {"params": json.dumps(ran_with, sort_keys=True), "lineage": json.dumps(chain)}
    facts[registry.TEACHERS] = json.dumps(registry.made_from(chain, md5))
    return {"run": run, **md5s, **facts, **git_commit(image_commit)}


def _first(entry: Evaluate, kind: str, count: int) -> list[dict[str, Any]]:
    """The first rows that the run was evaluated on."""
    return tables.read(_rows(entry), INPUTS[kind]).slice(0, count).to_pylist()


def _rows(entry: Evaluate) -> Path:
    """The rows that a run is evaluated on."""
    return paths.rows(entry.task) / f"{entry.split}.parquet"
