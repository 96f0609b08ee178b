"""A tiny fine-tuned model, without training, in each format that only this project reads."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import PreTrainedModel

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import loading, new_head
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.task import Task
from pipelines.models import bilstm, features, heads, shapes
from pipelines.models.quantization import int8, matrices, packed, qdq


def _qdq(model: PreTrainedModel) -> PreTrainedModel:
    for name, linear in matrices.linears(model).items():
        matrices.replace(
            model, name, qdq.QdqLinear.of(linear, int8.scales(linear.weight.detach()), *qdq.affine(-4.0, 4.0))
        )
    for name, embedding in matrices.embeddings(model).items():
        matrices.replace(model, name, int8.Int8Embedding.of(embedding))
    return model


def _packed(model: PreTrainedModel) -> PreTrainedModel:
    for name, linear in matrices.linears(model).items():
        matrices.replace(model, name, packed.PackedLinear(linear, packed.Grid(5, 2)))
    for name, embedding in matrices.embeddings(model).items():
        matrices.replace(model, name, packed.PackedEmbedding(embedding, packed.Grid(8, 1)))
    return model


def _cut(model: PreTrainedModel) -> PreTrainedModel:
    shapes.keep_heads(model, 0, [1])
    shapes.keep_rows(model, 1, [*range(0, 64, 3)])
    shapes.note(model)
    return model


def _factorized(model: PreTrainedModel) -> PreTrainedModel:
    shapes.add(model, shapes.RANK, 8)
    return model


def _shared(model: PreTrainedModel) -> PreTrainedModel:
    shapes.add(model, shapes.GROUPS, [0, 0])
    return model


# name -> function that converts a model of two layers
MADE: dict[str, Callable[[PreTrainedModel], PreTrainedModel]] = {
    "int8": int8.quantize,
    "qdq": _qdq,
    "packed": _packed,
    "cut": _cut,
    "factorized": _factorized,
    "shared": _shared,
}
# name -> pooling, features, head of this project
HEADS = {"mlp": ("mean", "second_to_last", "mlp"), "lstm": ("cls", "weighted_sum", "bilstm")}
NAMES = (*MADE, *HEADS, "bilstm", "packed under a head")


def save(name: str, encoder: Path, out: Path, task: Task) -> None:
    """Write a model in format `name` for rows of kind single into `out`, with the encoder of a folder."""
    torch.manual_seed(3)
    model: Any = _model(name, encoder, task)
    for parameter in heads.head_parameters(model):  # large enough that predictions differ
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    with torch.no_grad():
        for part in MADE:
            if name in (part, f"{part} under a head"):
                model = MADE[part](model)
    out.mkdir(parents=True)
    model_folder.save(model.eval(), out, encoder, task)


def forget_config(folder: Path) -> None:
    """Remove the record of config.json from the weights in a folder, as in the format before November 2026."""
    file = folder / loading.OWN_WEIGHTS
    if file.is_file():
        metadata = {key: text for key, text in loading.header(file).metadata.items() if key != loading.CONFIG_DIGEST}
        save_file(loading.tensors(file), file, metadata)


def _model(name: str, encoder: Path, task: Task) -> Any:
    if name == "bilstm":
        size = OpenedFolder(encoder).config["vocab_size"]
        inner = bilstm.BilstmConfig(vocab_size=size, hidden_size=16, num_hidden_layers=2, max_position_embeddings=64)
        config = features.FeaturesConfig(inner, pooling="ends", **heads.names(task))
        return features.FeaturesForSequenceClassification(config)
    pooling, layers, head = HEADS.get(name, ("cls", "last", "linear" if name.endswith("head") else "native"))
    model = new_head.for_task(encoder, task, head, pooling if head != "native" else None, layers)
    return copy.deepcopy(model)
