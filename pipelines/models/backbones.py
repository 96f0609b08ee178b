"""The one table that says where each family keeps its embeddings, its layers and its masked-word head."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.core.errors import InputError, choices
from pipelines.models.batch import Batch
from pipelines.text import tokenizer


@dataclass(frozen=True)
class Backbone:
    """Attribute paths: the first four below the encoder, the heads below the pretraining model that carries them."""

    layers: str
    embeddings: tuple[str, ...] = ("embeddings",)
    top: tuple[str, ...] = ()  # what stands above the layers and belongs to the encoder
    pooler: str = ""  # made for a sentence's label, so it trains with a head
    mlm_head: tuple[str, ...] = ()  # modules one after another, (N, H) to (N, V)
    pair_head: str = ""  # of two segments' order: the pooled (B, H) to (B, 2)
    count: str = "num_hidden_layers"  # the config's name for the number of layers
    token_types: bool = True  # whether the encoder takes token_type_ids
    plain: bool = False  # whether each layer takes what the one below gives, and the lowest what the embeddings give


_LAYER = "encoder.layer"
BACKBONES: dict[str, Backbone] = {
    "bert": Backbone(
        _LAYER, pooler="pooler", mlm_head=("cls.predictions",), pair_head="cls.seq_relationship", plain=True
    ),
    "roberta": Backbone(_LAYER, pooler="pooler", mlm_head=("lm_head",), token_types=False, plain=True),
    "albert": Backbone(
        "encoder.albert_layer_groups",  # groups of shared weights: one group is ALBERT's default
        embeddings=("embeddings", "encoder.embedding_hidden_mapping_in"),
        pooler="pooler",
        mlm_head=("predictions",),
        pair_head="sop_classifier",
        count="num_hidden_groups",
    ),
    "electra": Backbone(
        _LAYER,
        embeddings=("embeddings", "embeddings_project"),
        mlm_head=("generator_predictions", "generator_lm_head"),
        plain=True,
    ),
    "distilbert": Backbone(
        "transformer.layer",
        mlm_head=("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),
        count="n_layers",
        token_types=False,
        plain=True,
    ),
    "xlnet": Backbone("layer", embeddings=("word_embedding", "mask_emb"), count="n_layer"),
    "mobilebert": Backbone(_LAYER, pooler="pooler", mlm_head=("cls",)),
    "deberta-v2": Backbone(_LAYER, mlm_head=("cls",), top=("encoder.rel_embeddings", "encoder.LayerNorm")),
    "bilstm": Backbone("layers", token_types=False),
    "modernbert": Backbone("layers", top=("final_norm",), mlm_head=("head", "decoder"), token_types=False, plain=True),
}


def encoder(model: nn.Module) -> PreTrainedModel:
    """The encoder inside `model`, without its head; what is an encoder already is its own."""
    inner = getattr(model, "base_model", model)
    if inner is not model:
        return encoder(inner)
    assert isinstance(model, PreTrainedModel), type(model)
    return model


def backbone(model: nn.Module) -> Backbone:
    """The table's row for `model`'s family."""
    return BACKBONES[known(encoder(model).config.model_type)]


def known(family: object, where: str = "") -> str:
    """`family`, if the table has it; else one sentence, of what is at fault: a config's file, say."""
    if family not in BACKBONES:
        raise InputError(f"{where}{choices('model_type', family, BACKBONES)}")
    return str(family)


def embeddings(model: nn.Module) -> list[nn.Module]:
    """What stands below the layers."""
    return _modules(model, backbone(model).embeddings)


def top(model: nn.Module) -> list[nn.Module]:
    """What stands above the layers and below the head."""
    return _modules(model, backbone(model).top)


def layers(model: nn.Module) -> nn.ModuleList:
    """The encoder's layers, lowest first."""
    found = encoder(model).get_submodule(backbone(model).layers)
    assert isinstance(found, nn.ModuleList)
    return found


def set_layers(model: nn.Module, kept: list[int]) -> None:
    """Leave the encoder the layers of these numbers, and tell every config inside `model`."""
    row, old = backbone(model), layers(model)
    parent, _, name = row.layers.rpartition(".")
    setattr(encoder(model).get_submodule(parent), name, nn.ModuleList(old[i] for i in kept))
    configs: dict[int, Any] = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    for config in configs.values():
        if hasattr(config, row.count):
            setattr(config, row.count, len(kept))
        if getattr(config, "layer_types", None):
            config.layer_types = [config.layer_types[i] for i in kept]


@contextmanager
def only_layers(model: nn.Module, kept: list[int]) -> Iterator[None]:
    """Inside the block the encoder has the layers of these numbers alone."""
    row, every = backbone(model), layers(model)
    configs: list[Any] = [m.config for m in model.modules() if hasattr(m, "config")]
    before = [{name: getattr(c, name) for name in (row.count, "layer_types") if hasattr(c, name)} for c in configs]
    set_layers(model, kept)
    try:
        yield
    finally:
        parent, _, name = row.layers.rpartition(".")
        setattr(encoder(model).get_submodule(parent), name, every)
        for config, values in zip(configs, before, strict=True):
            for key, value in values.items():
                setattr(config, key, value)


def encoder_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Parameters of the encoder but for its pooler, which trains with the head."""
    pooler = {id(p) for part in _modules(model, (backbone(model).pooler,)) for p in part.parameters()}
    return [p for p in encoder(model).parameters() if id(p) not in pooler]


def takes_types(model: nn.Module) -> bool:
    """Whether token_type_ids are among the model's inputs: the encoder's, or those of a head that compares two texts."""
    return backbone(model).token_types or getattr(model.config, "pooling", "") == "compare"


def inputs(model: nn.Module, batch: Batch) -> Batch:
    """What of a batch the model takes in: no labels, and token types only where its family has them."""
    left_out = {"labels"} if takes_types(model) else {"labels", "token_type_ids"}
    return {name: tensor for name, tensor in batch.items() if name not in left_out}


def mlm_logits(model: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    """The masked-word head alone, (N, H) to (N, V)."""
    for path in backbone(model).mlm_head:
        hidden = model.get_submodule(path)(hidden)
    return hidden


def digest(*modules: nn.Module) -> str:
    """Of all their weights, by name."""
    found = hashlib.sha256()
    for name, tensor in (pair for module in modules for pair in module.state_dict().items()):
        found.update(name.encode())
        found.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else b"")
    return found.hexdigest()


def max_positions(model: nn.Module) -> int:
    """The longest sequence in tokens."""
    positions = tokenizer.positions(encoder(model).config.to_dict())
    return 2**31 - 1 if positions is None else positions


def _modules(model: nn.Module, paths: tuple[str, ...]) -> list[nn.Module]:
    inside = dict(encoder(model).named_modules())  # some families have a part only under some configs
    return [inside[path] for path in paths if path in inside and path]
