"""The table of families: the paths of their embeddings, layers and masked-token heads."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from pipelines.core.errors import InputError, choices
from pipelines.models.batch import Batch
from pipelines.text import tokenizer

SHAPES = "bertline_reshaped"  # key of an encoder's config: shapes that the family's config cannot express
POOLING = "classifier_pooling"  # key of a config: the vector of a sequence that the family's native head reads


@dataclass(frozen=True)
class Parts:
    """The paths of the linear layers inside one encoder layer."""

    query: str  # attention: (H, H) each, the rows of a head one after another
    key: str
    value: str
    output: str
    up: str  # feed-forward: (I, H)
    down: str  # (H, I)


@dataclass(frozen=True)
class Backbone:
    """Attribute paths: the first four are below the encoder, the heads below the pretraining model."""

    layers: str
    embeddings: tuple[str, ...] = ("embeddings",)
    top: tuple[str, ...] = ()  # modules above the layers that belong to the encoder
    pooler: str = ""  # serves sentence labels, so it is trained with the head
    mlm_head: tuple[str, ...] = ()  # modules applied in this order, (N, H) to (N, V)
    by_piece: str = ""  # a matrix with a column for each piece of the vocabulary, besides the embeddings
    pair_head: str = ""  # for the order of two segments: pooled (B, H) to (B, 2)
    count: str = "num_hidden_layers"  # the config's name for the number of layers
    token_types: bool = True  # whether the encoder takes token_type_ids
    parts: Parts | None = None  # None if the family's layers have no such linear layers
    plain: bool = False  # whether each layer reads only the output of the one below, or of the embeddings


_LAYER = "encoder.layer"
_BERT = Parts(
    query="attention.self.query",
    key="attention.self.key",
    value="attention.self.value",
    output="attention.output.dense",
    up="intermediate.dense",
    down="output.dense",
)
_ALBERT = Parts(
    query="albert_layers.0.attention.query",
    key="albert_layers.0.attention.key",
    value="albert_layers.0.attention.value",
    output="albert_layers.0.attention.dense",
    up="albert_layers.0.ffn",
    down="albert_layers.0.ffn_output",
)
_DISTILBERT = Parts(
    query="attention.q_lin",
    key="attention.k_lin",
    value="attention.v_lin",
    output="attention.out_lin",
    up="ffn.lin1",
    down="ffn.lin2",
)
_DEBERTA = replace(
    _BERT, query="attention.self.query_proj", key="attention.self.key_proj", value="attention.self.value_proj"
)
BACKBONES: dict[str, Backbone] = {
    "bert": Backbone(
        _LAYER,
        pooler="pooler",
        mlm_head=("cls.predictions",),
        pair_head="cls.seq_relationship",
        parts=_BERT,
        plain=True,
    ),
    "roberta": Backbone(_LAYER, pooler="pooler", mlm_head=("lm_head",), token_types=False, parts=_BERT, plain=True),
    "albert": Backbone(
        "encoder.albert_layer_groups",  # groups of shared weights; ALBERT's default is one group
        embeddings=("embeddings", "encoder.embedding_hidden_mapping_in"),
        pooler="pooler",
        mlm_head=("predictions",),
        pair_head="sop_classifier",
        parts=_ALBERT,
        count="num_hidden_groups",
    ),
    "electra": Backbone(
        _LAYER,
        embeddings=("embeddings", "embeddings_project"),
        mlm_head=("generator_predictions", "generator_lm_head"),
        parts=_BERT,
        plain=True,
    ),
    "distilbert": Backbone(
        "transformer.layer",
        mlm_head=("vocab_transform", "activation", "vocab_layer_norm", "vocab_projector"),
        count="n_layers",
        token_types=False,
        parts=_DISTILBERT,
        plain=True,
    ),
    "xlnet": Backbone("layer", embeddings=("word_embedding", "mask_emb"), count="n_layer"),
    "mobilebert": Backbone(
        _LAYER,
        pooler="pooler",
        mlm_head=("cls",),
        by_piece="cls.predictions.dense.weight",
        parts=_BERT,
    ),
    "deberta-v2": Backbone(
        _LAYER,
        mlm_head=("cls",),
        top=("encoder.rel_embeddings", "encoder.LayerNorm"),
        parts=_DEBERTA,
    ),
    "bilstm": Backbone("layers", token_types=False),
    "modernbert": Backbone("layers", top=("final_norm",), mlm_head=("head", "decoder"), token_types=False, plain=True),
}


def encoder(model: nn.Module) -> PreTrainedModel:
    """The encoder inside `model`, without the head; if `model` is an encoder, `model` itself."""
    inner = getattr(model, "base_model", model)
    if inner is not model:
        return encoder(inner)
    assert isinstance(model, PreTrainedModel), type(model)
    return model


def backbone(model: nn.Module) -> Backbone:
    """The table's row for `model`'s family."""
    return BACKBONES[known(encoder(model).config.model_type)]


def known(family: object, where: str = "") -> str:
    """`family`, if the table has it. Raises InputError otherwise; `where`, the file, begins the message."""
    if family not in BACKBONES:
        raise InputError(f"{where}{choices('model_type', family, BACKBONES)}")
    return str(family)


def embeddings(model: nn.Module) -> list[nn.Module]:
    """The modules of the embeddings, below the layers."""
    return _modules(model, backbone(model).embeddings)


def top(model: nn.Module) -> list[nn.Module]:
    """The modules above the layers and below the head."""
    return _modules(model, backbone(model).top)


def layers(model: nn.Module) -> nn.ModuleList:
    """The encoder's layers, lowest first."""
    modules = encoder(model).get_submodule(backbone(model).layers)
    assert isinstance(modules, nn.ModuleList)
    return modules


def parts(model: nn.Module, number: int) -> dict[str, nn.Linear]:
    """The linear layers of the encoder's layer `number`, by their names in `Parts`."""
    named, layer = backbone(model).parts, layers(model)[number]
    if named is None:
        family = encoder(model).config.model_type
        raise InputError(f"the layers of the {family} family are not made of separate linear layers for attention")
    linears = {name: layer.get_submodule(path) for name, path in vars(named).items()}
    assert all(isinstance(part, nn.Linear) for part in linears.values()), linears
    return linears  # type: ignore[return-value]


def set_layers(model: nn.Module, numbers: list[int]) -> None:
    """Keep only the encoder's layers with these numbers, and update every config inside `model`."""
    row, old = backbone(model), layers(model)
    parent, _, name = row.layers.rpartition(".")
    setattr(encoder(model).get_submodule(parent), name, nn.ModuleList(old[i] for i in numbers))
    configs: dict[int, Any] = {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}
    for config in configs.values():
        if hasattr(config, row.count):
            setattr(config, row.count, len(numbers))
        if getattr(config, "layer_types", None):
            config.layer_types = [config.layer_types[i] for i in numbers]
        if noted := getattr(config, SHAPES, None):
            setattr(config, SHAPES, of_layers(noted, numbers))


def of_layers(noted: dict[str, Any], numbers: list[int]) -> dict[str, Any]:
    """The values under SHAPES in a config, reduced to the layers with these numbers; a list has one item per layer."""
    return {key: [value[i] for i in numbers] if isinstance(value, list) else value for key, value in noted.items()}


@contextmanager
def only_layers(model: nn.Module, numbers: list[int]) -> Iterator[None]:
    """Reduce the encoder to the layers with these numbers, inside the block."""
    row, every = backbone(model), layers(model)
    names = (row.count, "layer_types", SHAPES)
    configs: list[Any] = [m.config for m in model.modules() if hasattr(m, "config")]
    before = [{name: getattr(c, name) for name in names if hasattr(c, name)} for c in configs]
    set_layers(model, numbers)
    try:
        yield
    finally:
        parent, _, name = row.layers.rpartition(".")
        setattr(encoder(model).get_submodule(parent), name, every)
        for config, values in zip(configs, before, strict=True):
            for key, value in values.items():
                setattr(config, key, value)


def encoder_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Parameters of the encoder without its pooler, which is trained with the head."""
    pooler = {id(p) for part in _modules(model, (backbone(model).pooler,)) for p in part.parameters()}
    return [p for p in encoder(model).parameters() if id(p) not in pooler]


def takes_types(model: nn.Module) -> bool:
    """Return whether the model takes token_type_ids: the encoder does, or the head compares two texts."""
    return backbone(model).token_types or getattr(model.config, "pooling", "") == "compare"


def inputs(model: nn.Module, batch: Batch) -> Batch:
    """The tensors of a batch that the model takes: no labels, and token types only if it takes them."""
    left_out = {"labels"} if takes_types(model) else {"labels", "token_type_ids"}
    return {name: tensor for name, tensor in batch.items() if name not in left_out}


def mlm_logits(model: nn.Module, hidden: torch.Tensor) -> torch.Tensor:
    """The masked-token head alone, (N, H) to (N, V)."""
    for path in backbone(model).mlm_head:
        hidden = model.get_submodule(path)(hidden)
    return hidden


def digest(*modules: nn.Module) -> str:
    """sha256 of the names and values of all weights of the modules."""
    hasher = hashlib.sha256()
    for name, tensor in (pair for module in modules for pair in module.state_dict().items()):
        hasher.update(name.encode())
        hasher.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes() if tensor.dim() else b"")
    return hasher.hexdigest()


def max_positions(model: nn.Module) -> int:
    """The length in tokens of the longest sequence that the model takes."""
    positions = tokenizer.positions(encoder(model).config.to_dict())
    return 2**31 - 1 if positions is None else positions


def _modules(model: nn.Module, paths: tuple[str, ...]) -> list[nn.Module]:
    inside = dict(encoder(model).named_modules())  # some configs of a family lack a module
    return [inside[path] for path in paths if path in inside and path]
