"""Run a compression method on a tiny model of any family and kind, like the compress stage but without an entry."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import PreTrainedModel

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.compression import claims, compress_entry
from pipelines.compression.context import Context, Data
from pipelines.core import plugins
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.resources import Resources
from pipelines.inference.predictor import Predictor
from pipelines.text import tokenizer
from pipelines.training.distributed import fitting
from tests.support import kinds, tiny

METHODS = "pipelines.compression.methods"
TWO_STEPS = {"epochs": 0.67, "batch_size": 8, "learning_rate": 1e-3}  # on 24 rows
QUANTIZING = ("dynamic_int8", "static_int8", "q8bert", "group_quant")


def families(name: str) -> tuple[str, ...]:
    """The families that a method claims to support."""
    return getattr(plugins.load(METHODS, name), "FAMILIES", ())


# the methods that make a student of their own, which the contract tests of students pick up by themselves
STUDENTS = [name for name in plugins.names(METHODS) if not families(name) and name not in QUANTIZING]
SAME_SIZE = ("prune_magnitude",)  # methods that keep the size in bytes


def options(name: str, **more: Any) -> dict[str, Any]:
    """The method's params for a tiny teacher, and two steps of training, with changes."""
    method = plugins.load(METHODS, name)
    trains = "epochs" in method.Params.model_fields
    return method.EXAMPLE | (TWO_STEPS if trains else {}) | more


def teacher(
    family: str,
    kind: str,
    folder: Path,
    layers: int = 2,
    head: str = "native",
    pooling: str | None = None,
    features: str = "last",
) -> Path:
    """The folder of a fine-tuned model with random weights; a BiLSTM gets a head of this project."""
    source = tiny.of_family(family, folder.parent / f".{folder.name}.encoder", layers=layers)
    torch.manual_seed(5)
    model = new_head.for_task(source, kinds.TASKS[kind], "linear" if family == "bilstm" else head, pooling, features)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter *= 4  # large enough that predictions differ
    folder.mkdir(parents=True)
    model_folder.save(model, folder, source, kinds.TASKS[kind])
    return folder


def can(family: str, kind: str) -> bool:
    """Return whether a tiny teacher of the family has a head for the kind; a BiLSTM has one for single and tagging."""
    return family != "bilstm" or kind in ("single", "tagging")


def context(folder: Path, fit: Any, kind: str, place: Path, key: str = "it") -> Context:
    """The Context that a method gets for the teacher in `folder`, with the rows of `kinds`."""
    source = OpenedFolder(folder)
    model, task = model_folder.load_tuned(source)
    texts, data = tokenizer.load(source), kinds.encoded(kind, place / f"{key}.encoded", folder)
    return Context(model, task, Data(data, None, texts.pad_id), texts, None, 1, fit, place / f"{key}.cache", source)


def compressed(name: str, folder: Path, kind: str, out: Path, **more: Any) -> tuple[PreTrainedModel, dict[str, Any]]:
    """Compress the teacher in `folder` into `out`; returns the model, and what the method recorded."""
    method = plugins.load(METHODS, name)
    params = method.Params(**options(name, **more))
    with fitting("compress", out.name, Resources()) as fit:
        context_of = context(folder, fit, kind, out.parent, out.name)
        claims.check(out.name, method, context_of.teacher, context_of.task, folder.name)
        model = method.compress(context_of, params)
    out.mkdir()
    model_folder.save(model, out, compress_entry.tokenizer_folder(context_of), context_of.task)
    return model, context_of.found


def claiming() -> list[str]:
    """The methods that claim to support families."""
    return [name for name in plugins.names(METHODS) if families(name)]


def check_answers(ours: Predictor, other: Predictor, kind: str, within: float = 1e-5) -> None:
    """Assert that both predict the same for the rows of `kinds`; numbers may differ by `within`."""
    table = kinds.rows(kind)
    answers, expected = (predictor.predict(table).to_pylist() for predictor in (ours, other))
    assert len(answers) == 24
    for mine, its in zip(answers, expected, strict=True):
        for name in mine:
            number = name in ("score", "scores", "value", "no_answer")
            assert mine[name] == (pytest.approx(its[name], abs=within) if number else its[name]), name


def logits(predictor: Predictor) -> np.ndarray:
    """The logits for the rows of `kinds` of kind single, (24, labels)."""
    return np.array(predictor.forward([predictor.encode(kinds.rows("single"))])[0])
