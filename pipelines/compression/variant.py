"""variant.json of a compressed model: what it was made of, and what it costs.

Its bytes depend on the model alone. Its score is not in it: `evaluate` runs later.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError
from transformers import PreTrainedModel

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import formats
from pipelines.core import json_file, paths, provenance
from pipelines.core.errors import InputError, sentence
from pipelines.measurement import cost

FILE = "variant.json"


def write(
    out: Path,
    model: PreTrainedModel,
    kind: str,
    step: Mapping[str, Any],
    teacher: str,
    teacher_folder: Path,
    findings: Mapping[str, Any],
) -> None:
    """Write variant.json into the model folder `out`, whose other files are written.

    Args:
        step: run, method and params of this compression.
        teacher: the name of its run.
        findings: what the method says of its result, such as the layers that it dropped.
    """
    parent = {"run": teacher, "sha256": provenance.sha256(formats.weights(teacher_folder))}
    size = cost.size(out)
    record = {
        **step,
        "teacher": parent,
        "chain": [*_before(teacher_folder, parent), {**step}],
        "parameters": size["parameters"],
        "sparsity": _sparsity(out, model, size["parameters"]),
        "flops_per_token": cost.flops_per_token(model, kind),
        "size_bytes": {"weights": size["size_bytes"], "folder": 0},
        "found": dict(findings),
    }
    _with_its_own_size(out, record)


def facts(folder: Path) -> dict[str, Any]:
    """The facts about a run's model that its metrics hold, the same on every machine.

    `model`: parameters, size_bytes (of the weights), flops_per_token. A compressed model also has `variant`: the run
    that was its teacher, the runs and methods that led to it (`chain`), the last method's params, and its sparsity.
    """
    size = cost.size(folder)
    if not (folder / FILE).is_file():
        model, task = model_folder.load_tuned(folder)  # apart from the one that predicts, whose layers may be others
        return {"model": size | {"flops_per_token": cost.flops_per_token(model, task.kind)}}
    record = _read(folder)
    chain = [{name: step[name] for name in ("run", "method")} for step in record["chain"]]
    known = {"teacher": record["teacher"]["run"], "chain": chain, "params": record["params"]}
    known["sparsity"] = record["sparsity"]
    return {"model": size | {"flops_per_token": record["flops_per_token"]}, "variant": known}


@dataclass(frozen=True)
class _Run:
    run: str


@dataclass(frozen=True)
class _Step(_Run):
    method: str | None


@dataclass(frozen=True)
class _Record:
    """The part of variant.json that is read."""

    teacher: _Run
    chain: list[_Step]
    params: dict[str, Any]
    sparsity: Annotated[float, Field(ge=0, le=1)]
    flops_per_token: Annotated[int, Field(ge=0)]


_RECORD = TypeAdapter(_Record)


def _read(folder: Path) -> dict[str, Any]:
    """variant.json of a folder. Raises InputError that names the key of which it says nothing, or something else."""
    record = json_file.mapping(folder / FILE)
    try:
        _RECORD.validate_json(json.dumps(record), strict=True)
    except ValidationError as invalid:
        raise InputError(f"{folder / FILE}: {sentence(invalid.errors()[0])}; compress again") from None
    return record


def _sparsity(out: Path, model: PreTrainedModel, parameters: int) -> float:
    """The share of zeros among weights that are floats; 0 where they are rounded.

    Rounding makes zeros that no method asked for, and packed bytes are no weights. What a chain made zero before it
    was rounded, the params of its `chain` say.
    """
    if formats.of_model(model) not in formats.FLOATS:
        return 0.0
    return round(cost.zeros(out) / max(1, parameters), 6)


def _before(folder: Path, parent: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps that led to the teacher, from the first teacher on, which no method made."""
    if (folder / FILE).is_file():
        return list(_read(folder)["chain"])
    return [{"run": parent["run"], "method": None, "sha256": parent["sha256"]}]


def _with_its_own_size(out: Path, record: dict[str, Any]) -> None:
    """Write the record; the folder's bytes count this file too, which is as long as they are written."""
    path, told = out / FILE, -1
    while told != record["size_bytes"]["folder"]:
        told = record["size_bytes"]["folder"]
        path.write_text(json.dumps(record, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        record["size_bytes"]["folder"] = paths.size_bytes(out)
