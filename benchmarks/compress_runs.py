"""What each seed of a compression table gave, and how fast each model was, kept in a file.

Seeds but the first are made here where they are missing.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from dvc.utils.serialize import load_yaml

from pipelines.checkpoints import formats
from pipelines.core import json_file, params, paths, tables
from pipelines.core.task import Task
from pipelines.entries.evaluate import Evaluate
from pipelines.evaluation import significance
from pipelines.evaluation.prediction_scores import metric_of_rows

Entries = dict[str, dict[str, Any]]
Key = tuple[str, str, int]  # an entry, its origin, a seed


def made_from(teacher: str, entries: Entries) -> Entries:
    """The entries that `teacher` leads to, also through others, in the order of the file."""
    descendants: Entries = {}
    for name, entry in entries.items():
        if entry["teacher"] == teacher or entry["teacher"] in descendants:
            descendants[name] = entry
    return descendants


def lineage(name: str, entries: Entries) -> list[str]:
    """An entry, and those that it comes from."""
    return [name, *lineage(entries[name]["teacher"], entries)] if name in entries else []


def origin(name: str, entries: Entries) -> str:
    """A digest of the entry and of those that it comes from; "" of the teacher."""
    if name not in entries:
        return ""
    text = json.dumps([entries[step] for step in lineage(name, entries)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _lines(runs: Path) -> list[dict[str, Any]]:
    return [*map(json.loads, runs.read_text(encoding="utf-8").splitlines() if runs.is_file() else ())]


def append(runs: Path, line: dict[str, Any]) -> None:
    with runs.open("a", encoding="utf-8") as file:
        file.write(f"{json.dumps(line)}\n")


def kept(runs: Path) -> dict[Key, dict[str, Any]]:
    """What seeds gave."""
    return {(line["run"], line["origin"], line["seed"]): line for line in _lines(runs) if "seed" in line}


def of_seeds(name: str, entries: Entries, seeds: list[int], known: dict[Key, dict[str, Any]]) -> list[dict[str, Any]]:
    """What those of the seeds gave that were kept."""
    keys = [(name, origin(name, entries), seed) for seed in seeds]
    return [known[key] for key in keys if key in known]


def speeds(runs: Path) -> dict[tuple[str, str], dict[str, dict[str, Any]]]:
    """An entry and its origin -> "torch" or "onnx" -> its speed beside the teacher's (in_turn.Compared), the newest."""
    ways_of: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for line in _lines(runs):
        if "way" in line:
            about = {key: line[key] for key in ("cpu", "cost", "faster", "throughput")}
            ways_of.setdefault((line["run"], line["origin"]), {})[line["way"]] = about
    return ways_of


def keep(entries: Entries, teacher: str, seeds: list[int], runs: Path, only: list[str]) -> None:
    """Append to `runs` what it lacks: of the first seed what the checkout has, of the others what is made here.

    Of `only` some entries, if it names any.
    """
    for seed in seeds:
        known = kept(runs)
        chosen = [name for name in entries if not only or name in only]
        missing = [name for name in chosen if (name, origin(name, entries), seed) not in known]
        if seed == seeds[0]:
            locked = stages()
            there: Iterator[str] = (name for name in missing if complete(name, entries, locked))
            place = Path()
        else:
            there, place = made(seed, entries, {step for name in missing for step in lineage(name, entries)}), at(seed)
        for name in there:
            if name in missing:
                line = {"run": name, "origin": origin(name, entries), "seed": seed}
                append(runs, line | result(name, place, teacher))


def stages() -> dict[str, Any]:
    """The stages of dvc.lock; DVC writes 5e-05, which is no number in the YAML of `yaml`."""
    locked: dict[str, Any] = load_yaml(paths.DVC_LOCK)["stages"]
    return locked


def folder(name: str, entries: Entries, seeds: list[int], locked: dict[str, Any]) -> Path | None:
    """The model that these entries made, with the first of the seeds for which it is there."""
    if complete(name, entries, locked):
        return paths.model(name)
    for place in map(at, seeds[1:]):
        if _marked(place / "origins" / name, origin(name, entries)) and (place / paths.metrics(name)).is_file():
            return place / paths.model(name)
    return None


def complete(name: str, entries: Entries, locked: dict[str, Any]) -> bool:
    """Whether the checkout's model stems from these entries, all of them, and is the one that was evaluated.

    The metrics of a model that an entry made before it was edited are still there until the graph has run again.
    """
    model = _output(locked, f"evaluate@{name}", "deps", name)
    for step in lineage(name, entries):
        stage = locked.get(f"compress@{step}", {})
        if not model or model != _output(locked, f"compress@{step}", "outs", step):
            return False
        if stage["params"][str(params.FILE)][f"compress.{step}"] != entries[step]:
            return False
        model = _output(locked, f"compress@{step}", "deps", entries[step]["teacher"])
    return paths.metrics(name).is_file()


def _output(locked: dict[str, Any], stage: str, side: str, model: str) -> str:
    """The digest of a model among what a stage of dvc.lock reads, or writes; "" if it is not there."""
    listed = locked.get(stage, {}).get(side, ())
    return next((output["md5"] for output in listed if output["path"] == str(paths.model(model))), "")


def result(name: str, here: Path, teacher: str) -> dict[str, Any]:
    """What one model scored and costs, beside its teacher; `interval` is of the points between them, on these rows."""
    facts = json_file.mapping(here / paths.model(name) / "variant.json")
    weights = formats.weights(paths.model(teacher)).stat().st_size
    return {
        "score": score(name, here),
        "teacher": score(teacher, Path()),
        "interval": interval(name, here, teacher),
        "methods": [step["method"] for step in facts["chain"][1:]],
        "bytes": facts["size_bytes"]["weights"],
        "bytes_share": facts["size_bytes"]["weights"] / weights,
        "flops_share": facts["flops_per_token"] / flops(teacher),
        "sparsity": facts["sparsity"],
    }


def score(name: str, here: Path) -> float:
    record = json_file.mapping(here / paths.metrics(name))
    return float(record["metrics"][record["metric"]])


def flops(run: str) -> float:
    return float(json_file.mapping(paths.metrics(run))["model"]["flops_per_token"])


def interval(name: str, here: Path, teacher: str) -> list[float]:
    """The points between a model and its teacher: their 95% bootstrap interval over the rows."""
    scored = params.entry("evaluate", teacher, Evaluate)
    rows, file = paths.rows(scored.task), f"{scored.split}.parquet"
    task, gold = Task.load(rows), tables.read(rows / file)
    both = [tables.read(paths.predictions(teacher) / file), tables.read(here / paths.predictions(name) / file)]
    teacher_metric, student_metric = (metric_of_rows(gold, answers, task) for answers in both)
    low, high = significance.interval(lambda chosen: student_metric(chosen) - teacher_metric(chosen), gold.num_rows)
    return [round(100 * low, 2), round(100 * high, 2)]


def at(seed: int) -> Path:
    return Path("state/seeds") / str(seed)


def made(seed: int, entries: Entries, needed: set[str]) -> Iterator[str]:
    """Make and evaluate the needed entries with another seed, in a folder that sees what the first seed's run has."""
    values, here = params.read(), at(seed)
    again = {name: entry | {"seed": seed} for name, entry in entries.items()}
    shortened = {key: Path(entry["vocab"]).name for key, entry in values["encode"].items()}
    shortened = {key: name for key, name in shortened.items() if name in entries}
    link(here, {*again, *shortened})
    (here / params.FILE).write_text(yaml.safe_dump(values | {"compress": again}, sort_keys=False), encoding="utf-8")
    for name in filter(needed.__contains__, entries):
        outputs = [
            paths.model(name),
            paths.metrics(name),
            *(paths.encoded(k) for k, v in shortened.items() if v == name),
        ]
        forget(here, outputs, here / "origins" / name, origin(name, entries))
        if (data := again[name]["data"]) in shortened:
            stage(here, "encode", data, paths.encoded(data))
        stage(here, "compress", name, paths.model(name))
        stage(here, "evaluate", name, paths.metrics(name))
        yield name


def forget(here: Path, outputs: list[Path], mark: Path, now: str) -> None:
    """Remove what an entry of other params has left, or a link that the turn of another teacher made."""
    if _marked(mark, now):
        return
    for output_path in (here / output for output in outputs):
        if output_path.is_dir() and not output_path.is_symlink():
            shutil.rmtree(output_path)
        output_path.unlink(missing_ok=True)
    mark.parent.mkdir(exist_ok=True)
    mark.write_text(now, encoding="utf-8")


def _marked(mark: Path, now: str) -> bool:
    return mark.is_file() and mark.read_text(encoding="utf-8") == now


def link(here: Path, own_names: set[str]) -> None:
    """Let stages in `here` find the artefacts of the checkout but those with these names, which they make.

    One that a writer has begun, and not ended, has a dot before its name.
    """
    for kind in ("rows", "vocab", "encoded", "models"):
        (here / paths.ARTIFACTS / kind).mkdir(parents=True, exist_ok=True)
        folder = paths.ARTIFACTS / kind
        for artefact in folder.iterdir() if folder.is_dir() else ():
            if artefact.name[0] != "." and artefact.name not in own_names and not (here / artefact).exists():
                (here / artefact).symlink_to(artefact.resolve())
    if not (here / "encoders").exists():
        (here / "encoders").symlink_to(Path("encoders").resolve())


def stage(here: Path, name: str, key: str, out: Path) -> None:
    if not (here / out).exists():
        code = {"PYTHONPATH": str(Path.cwd()), "BERTLINE_QUIET": "1"}
        subprocess.run(
            [sys.executable, "-m", f"pipelines.stages.{name}", key], cwd=here, env=os.environ | code, check=True
        )
