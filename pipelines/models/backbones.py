"""The one table that says where each family keeps its embeddings, its layers and its masked-word head."""

from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedModel

from pipelines.core.errors import InputError, choices


@dataclass(frozen=True)
class Backbone:
    """Attribute paths: `embeddings` and `layers` below the encoder, `mlm_head` below the masked-LM model."""

    embeddings: str
    layers: str
    mlm_head: str
    count: str = "num_hidden_layers"  # the config's name for the number of layers
    token_types: bool = True  # whether the encoder takes token_type_ids


BACKBONES: dict[str, Backbone] = {
    "bert": Backbone("embeddings", "encoder.layer", "cls"),
    "roberta": Backbone("embeddings", "encoder.layer", "lm_head", token_types=False),
    "electra": Backbone("embeddings", "encoder.layer", "generator_lm_head"),
    "distilbert": Backbone("embeddings", "transformer.layer", "", count="n_layers", token_types=False),
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
    family = encoder(model).config.model_type
    if family not in BACKBONES:
        raise InputError(choices("family", family, BACKBONES))
    return BACKBONES[family]


def embeddings(model: nn.Module) -> nn.Module:
    return encoder(model).get_submodule(backbone(model).embeddings)


def layers(model: nn.Module) -> nn.ModuleList:
    """The encoder's layers, lowest first."""
    found = encoder(model).get_submodule(backbone(model).layers)
    assert isinstance(found, nn.ModuleList)
    return found


def set_layers(model: nn.Module, kept: list[nn.Module]) -> None:
    """Give the encoder these layers, and tell every config inside `model` how many they are."""
    row = backbone(model)
    parent, _, name = row.layers.rpartition(".")
    setattr(encoder(model).get_submodule(parent), name, nn.ModuleList(kept))
    configs = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    for config in configs.values():
        if hasattr(config, row.count):
            setattr(config, row.count, len(kept))


def max_positions(model: nn.Module) -> int:
    """The longest sequence in tokens; RoBERTa's first positions stand for padding."""
    config = encoder(model).config
    offset = (config.pad_token_id or 0) + 1 if config.model_type == "roberta" else 0
    return int(config.max_position_embeddings) - offset
