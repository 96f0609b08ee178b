"""The facts of a model card (Mitchell et al. 2019): what the files of a checkout know of a model.

A file of this checkout counts only if it is the one that the model was made of or scored with, by its digest in the
provenance; what is not known is left out.
"""

import re
from pathlib import Path
from typing import Any

from pipelines.core import json_file, metrics_file, params, paths, provenance
from pipelines.core.errors import UsageError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.task import FILE as TASK_FILE
from pipelines.tracking.ledger_events import CHAMPION

Facts = dict[str, Any]
SCORED = (
    "split",
    "rows",
    "metric",
    "metrics",
    "interval",
    "slices",
    "classes",
    "behaviour",
    "truncated",
    "only_answer",
)
QUALITY = ("empty", "duplicates", "conflicts", "near_duplicates", "unlabelled")  # counts of a split's rows
DECLARED = ("intended_use", "licence")  # keys of an entry of promote


def parsed(which: str) -> tuple[str, str]:
    """The name, and the alias or number, of NAME, NAME@champion or NAME@3; no alias for a run that is here.

    Raises UsageError for another form, and for an entry of params.yaml that has no model.
    """
    parts = re.fullmatch(r"([\w.-]+?)(?:[@/](\w+))?", which)
    if not parts:
        raise UsageError(f"{which}: write a run, or a model as NAME, NAME@champion or NAME@3")
    name, label = parts[1], parts[2] or ""
    if label or (paths.model(name) / TASK_FILE).is_file():
        return name, label
    if name not in entries("promote"):
        if section := next((section for section in ("finetune", "compress") if name in entries(section)), ""):
            raise UsageError(f"{paths.model(name)}: no such model yet; `bertline run {section}@{name}` makes it")
        if name in entries("baseline"):
            raise UsageError(f"{name}: a baseline has no model, and so no card; `bertline table` has its score")
    return name, CHAMPION


def of_run(run: str) -> Facts:
    """The facts of a run's model. Raises InputError if its folder is none of a tuned model."""
    rules: Facts = next((entry for entry in entries("promote").values() if entry.get("run") == run), {})
    return {"name": run, **described(paths.model(run), run, rules)}


def described(folder: Path, run: str, rules: Facts) -> Facts:
    """The facts of the model in `folder`, which the run `run` made; `rules` are the keys of its entry of promote."""
    opened = OpenedFolder(folder)
    task, made, scored = opened.task, provenance.read(folder), _evaluation(run, folder)
    size, length = scored.pop("model", None) or _size(folder), opened.tokenizer_config.get("model_max_length")
    return {
        "run": run,
        "kind": task.kind,
        "labels": list(task.labels),
        "language": task.language,
        "family": opened.encoder_config.get("model_type", ""),
        "class": next(iter(opened.config.get("architectures") or []), ""),
        "parameters": size["parameters"],
        "size_bytes": size["size_bytes"],
        "max_length": length if isinstance(length, int) and length < 10**6 else None,  # else it is no limit
        "data": _data(made),
        "training": _training(made),
        "evaluation": scored,
        "inputs": mapping(made.get("inputs")),
        **declared(rules),
    }


def declared(rules: Facts) -> Facts:
    """The facts that an entry of promote declares."""
    return {key: str(rules[key]) for key in DECLARED if rules.get(key)}


def _size(folder: Path) -> dict[str, int]:
    from pipelines.measurement import cost  # with torch, which a scored run does not need here

    return cost.size(folder)


def _evaluation(run: str, folder: Path) -> Facts:
    """The scores of the model in `folder` by the files of this checkout; {} if they are of another model."""
    if not run or not paths.metrics(run).is_file():
        return {}
    record, model = metrics_file.read(run), paths.model(run).as_posix()
    inputs = mapping(provenance.read(paths.predictions(run)).get("inputs"))
    if inputs.get(model) != provenance.digest(folder) or not record.get("metrics"):
        return {}
    same = {key: record[key] for key in ("task", "split", "metric")}
    scored = {key: record[key] for key in ("task", "model", *SCORED) if record.get(key) is not None}
    rows = paths.rows(record["task"]).as_posix()
    return scored | {"baselines": [*filter(None, (_baseline(key, same, rows, inputs) for key in entries("baseline")))]}


def _baseline(run: str, same: Facts, rows: str, inputs: Facts) -> Facts:
    """The score of a baseline that answered the same rows; {} for any other."""
    if not paths.metrics(run).is_file():
        return {}
    record = metrics_file.read(run)
    answered = mapping(provenance.read(paths.predictions(run)).get("inputs"))
    if any(record.get(key) != value for key, value in same.items()) or answered.get(rows) != inputs.get(rows):
        return {}
    return {"run": run, "score": record["metrics"][same["metric"]], "interval": record["interval"]}


def _data(made: Facts) -> Facts:
    """The rows that a model learned from, as far as they are still here: corpus, source, licences, counts by split."""
    encoded = _input(made, paths.encoded(str(mapping(made.get("params")).get("data", ""))))
    rows = paths.rows(str(mapping(encoded.get("params")).get("task", "")))
    prepared = _input(encoded, rows)
    if not prepared:
        return {}
    entry = mapping(prepared.get("params"))
    licences = mapping(_input(prepared, Path(str(entry.get("source", "")))).get("licences"))
    quality = json_file.mapping(rows / "quality.json")
    splits = {split: _counts(numbers) for split, numbers in mapping(quality.get("splits")).items()}
    shared = {pair: leak["rows"] for pair, leak in mapping(quality.get("shared_between_splits")).items()}
    facts = {"task": rows.name, "corpus": entry.get("corpus", ""), "source": entry.get("source", "")}
    return facts | {"licences": sorted({*licences.values()} - {""}), "splits": splits, "shared": shared}


def _counts(numbers: Facts) -> Facts:
    counts = {key: numbers[key]["rows"] for key in QUALITY if key in numbers}
    return {"rows": numbers["rows"], "labels": numbers.get("labels", {}), **counts}


def _training(made: Facts) -> list[Facts]:
    """The steps that made a model, the last first: {"stage", "params"}, and of an encoder its path and its stage."""
    steps: list[Facts] = []
    while made:
        entry = mapping(made.get("params"))
        steps.append({"stage": made.get("stage", ""), "params": entry})
        if made.get("stage") == "finetune":
            encoder = Path(str(entry.get("encoder", "")))
            steps.append({"encoder": encoder.as_posix(), "stage": _input(made, encoder).get("stage", "")})
            break
        made = _input(made, paths.model(str(entry.get("teacher", "")))) if made.get("stage") == "compress" else {}
    return steps


def _input(record: Facts, path: Path) -> Facts:
    """The provenance of a folder that was read; {} if it is not there any more as it was."""
    digest = mapping(record.get("inputs")).get(path.as_posix())
    return provenance.read(path) if digest and path.exists() and provenance.digest(path) == digest else {}


def entries(section: str) -> Facts:
    """The entries of a section of params.yaml; {} without the file."""
    return params.read().get(section, {}) if params.FILE.is_file() else {}


def mapping(value: Any) -> Facts:
    """A value that is a mapping, as it should be; {} for any other, which another program may have written."""
    return value if isinstance(value, dict) else {}
