"""Quantize a tiny model of any family; both the teacher and the result are kept in folders."""

from pathlib import Path
from typing import Any

import torch

from pipelines.checkpoints import folder as model_folder
from pipelines.compression.context import Context, Data
from pipelines.core import plugins
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.resources import Resources
from pipelines.models import heads
from pipelines.text import tokenizer
from pipelines.training.distributed import fitting
from tests.support import kinds

FEW = {"epochs": 1, "batch_size": 8, "learning_rate": 1e-3}  # of the methods that train
FAMILIES = sorted({*kinds.FAMILIES} - {"xlnet"})  # xlnet's attention has no linear layers


def teacher(kind: str, family: str, place: Path) -> Context:
    """The context of a compression; its teacher, with random weights, is in `place`/teacher."""
    model, data = kinds.model_and_rows(kind, family, place, "linear" if family == "bilstm" else "native")
    for parameter in heads.head_parameters(model):  # so large that logits differ, so small that rounding shows
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.2)
    task, texts = kinds.TASKS[kind], tokenizer.load(place / "encoder")
    source = OpenedFolder(place / "teacher")
    source.path.mkdir()
    model_folder.save(model, source.path, place / "encoder", task)
    with fitting("compress", "t", Resources()) as fit:
        return Context(model, task, Data(data, None, texts.pad_id), texts, None, 1, fit, place, source)


def quantized(method: str, context: Context, resources: Resources | None = None, **options: Any) -> Path:
    """Quantize the context's teacher by a method; returns the folder of the result."""
    plugin = plugins.load("pipelines.compression.methods", method)
    trains = FEW if method == "q8bert" else {}
    with fitting("compress", method, resources or Resources()) as fit:
        own_context = Context(**{**vars(context), "fit": fit})
        model = plugin.compress(own_context, plugin.Params(**plugin.EXAMPLE | trains | options))
    out = context.cache / method
    out.mkdir()
    model_folder.save(model, out, context.cache / "encoder", context.task)
    return out
