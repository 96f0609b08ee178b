"""variant.json of a compressed model: how it was made, and what it costs.

The file depends on the model alone. It holds no score, because `evaluate` runs later.
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
from pipelines.core.opened_folder import Folder, OpenedFolder
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
    """Write variant.json into the model folder `out`, after all other files.

    Args:
        step: run, method and params of this compression.
        teacher: the name of the teacher's run.
        findings: the method's findings about its result, such as the layers that it dropped.
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


def facts(folder: Folder) -> dict[str, Any]:
    """The facts about a run's model for its metrics, the same on every machine.

    `model`: parameters, size_bytes (of the weights), flops_per_token. A compressed model also has `variant`: the run of
    its teacher, the runs and methods that led to it (`chain`), the params of the last method, and its sparsity.
    """
    folder = OpenedFolder.of(folder)
    size = cost.size(folder.path)
    if not (folder / FILE).is_file():
        model, task = model_folder.load_tuned(folder)  # loaded anew: the model that predicts may have other layers
        return {"model": size | {"flops_per_token": cost.flops_per_token(model, task.kind)}}
    record = _read(folder.path)
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
    """The keys of variant.json that are read."""

    teacher: _Run
    chain: list[_Step]
    params: dict[str, Any]
    sparsity: Annotated[float, Field(ge=0, le=1)]
    flops_per_token: Annotated[int, Field(ge=0)]


_RECORD = TypeAdapter(_Record)


def _read(folder: Path) -> dict[str, Any]:
    """The content of a folder's variant.json. Raises InputError, which names the key, if a value does not fit."""
    record = json_file.mapping(folder / FILE)
    try:
        _RECORD.validate_json(json.dumps(record), strict=True)
    except ValidationError as invalid:
        raise InputError(f"{folder / FILE}: {sentence(invalid.errors()[0])}; compress again") from None
    return record


def _sparsity(out: Path, model: PreTrainedModel, parameters: int) -> float:
    """The share of zeros among float weights; 0 for rounded weights.

    Rounding makes zeros that no method requested, and packed bytes are not weights. The params in `chain` tell which
    sparsity a model had before it was rounded.
    """
    if formats.of_model(model) not in formats.FLOATS:
        return 0.0
    return round(cost.zeros(out) / max(1, parameters), 6)


def _before(folder: Path, parent: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The steps that led to the teacher, from the first teacher on, which has no method."""
    if (folder / FILE).is_file():
        return list(_read(folder)["chain"])
    return [{"run": parent["run"], "method": None, "sha256": parent["sha256"]}]


def _with_its_own_size(out: Path, record: dict[str, Any]) -> None:
    """Write the record. The folder's bytes include this file, so it is written until the size stays the same."""
    path, recorded = out / FILE, -1
    while recorded != record["size_bytes"]["folder"]:
        recorded = record["size_bytes"]["folder"]
        path.write_text(json.dumps(record, ensure_ascii=False, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        record["size_bytes"]["folder"] = paths.size_bytes(out)
