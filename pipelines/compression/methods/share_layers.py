"""share_layers: layers share one set of weights, as in ALBERT (Lan et al. 2020, section 3.1), then fine-tuning.

ALBERT is pretrained with shared weights. Here they start as the mean of the layers that share them, or as the lowest of
these layers, and training repairs the loss: fine-tuning and, with `transfer_epochs`, before it a fit to the teacher's
states of every layer (Sun et al. 2020, section 3.5, L_FMT). The layers of a group are neighbours, as in ALBERT.

A BERT becomes a native `Albert*` model: in evaluation a layer of both computes the same, and ALBERT's projection of
embeddings starts as the identity. (ALBERT has no dropout after the feed-forward part.)

Other families differ: RoBERTa counts positions from the padding's id, the heads of ELECTRA and DistilBERT have other
activations, ModernBERT has its norms before its parts, and DeBERTa has its own attention. These families keep their
architecture with shared weights, which are stored once. So do a BERT under one of bertline's own heads, and a BERT with
shapes that ALBERT cannot have. config.json notes the groups (`bertline_reshaped`), and bertline opens the folder.
"""

from typing import Annotated, Any, Literal

import torch
from pydantic import Field
from torch import nn
from transformers import AlbertConfig, PreTrainedModel

from pipelines.compression import transfer
from pipelines.compression.context import Context
from pipelines.compression.retraining import FineTuneAfter, fine_tune, unchanged
from pipelines.compression.transfer import Rate
from pipelines.core.errors import UsageError
from pipelines.core.section import Count
from pipelines.models import backbones, heads, shapes

FAMILIES = tuple(name for name in backbones.BACKBONES if name != "albert")  # ALBERT shares layers already
IN_ALBERT = {  # parts of a layer in BERT -> in ALBERT
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.dense",
    "attention.output.LayerNorm": "attention.LayerNorm",
    "intermediate.dense": "ffn",
    "output.dense": "ffn_output",
    "output.LayerNorm": "full_layer_layer_norm",
}
SAME = (  # config values with the same name in both
    "vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "hidden_act",
    "hidden_dropout_prob", "attention_probs_dropout_prob", "max_position_embeddings", "type_vocab_size",
    "initializer_range", "layer_norm_eps", "pad_token_id", "bos_token_id", "eos_token_id",
)  # fmt: skip
EXAMPLE: dict[str, Any] = {}


class Params(FineTuneAfter):
    """The number of sets of weights, how they start, and the settings of both fits."""

    groups: Count = 1
    start: Literal["mean", "lowest"] = "mean"
    transfer_epochs: Annotated[float, Field(ge=0)] = 0  # epochs of the fit to the teacher's states
    transfer_learning_rate: Rate = 1e-3


def compress(context: Context, params: Params) -> PreTrainedModel:
    """The teacher with layers that share their weights."""
    model, count = context.teacher, len(backbones.layers(context.teacher))
    if params.groups >= count:
        raise UsageError(f"params.yaml: compress: groups: {params.groups} for {count} layers; take fewer")
    groups = shapes.divided(count, params.groups)
    _check_alike(model, groups)
    _check_apart(model, groups)
    for group in range(params.groups):
        _begin([layer for g, layer in zip(groups, backbones.layers(model), strict=True) if g == group], params.start)
    context.found["groups"] = groups
    if type(model).__module__.startswith("transformers.models.bert.") and not shapes.of(model):
        model = as_albert(model, context.task.kind, params.groups)
    else:
        shapes.add(model, shapes.GROUPS, groups)
    if params.transfer_epochs:
        rates = {"epochs": params.transfer_epochs, "learning_rate": params.transfer_learning_rate}
        transfer.every_layer(unchanged(context), model, params.model_copy(update=rates), attention=0)
    return fine_tune(context, model, params)


def _check_alike(model: nn.Module, groups: list[int]) -> None:
    """Raise UsageError if parts of a group's layers differ in size, as after pruning heads layer by layer."""
    sizes: dict[tuple[int, str], torch.Size] = {}
    for group, layer in zip(groups, backbones.layers(model), strict=True):
        for name, parameter in layer.named_parameters():
            if sizes.setdefault((group, name), parameter.shape) != parameter.shape:
                raise UsageError(f"params.yaml: compress: groups: layers of one group differ in the size of {name}")


def _check_apart(model: nn.Module, groups: list[int]) -> None:
    """Raise UsageError if the lowest layers of two groups already share weights, so that the groups would be one."""
    before = shapes.of(model).get(shapes.GROUPS, [*range(len(groups))])
    lowest = [before[groups.index(group)] for group in sorted({*groups})]
    if len({*lowest}) < len(lowest):
        raise UsageError(
            f"params.yaml: compress: groups: {len(lowest)} would separate layers of the teacher that share weights "
            f"already, in the groups {', '.join(map(str, before))}; take fewer"
        )


@torch.no_grad()
def _begin(layers: list[nn.Module], start: str) -> None:
    """Set each parameter of the lowest layer that has it to the mean over the layers; without `mean` change nothing."""
    named: dict[str, list[nn.Parameter]] = {}
    for layer in layers:
        for name, parameter in layer.named_parameters():
            named.setdefault(name, []).append(parameter)
    for parameters in named.values() if start == "mean" else ():
        parameters[0].copy_(torch.stack([p.double() for p in parameters]).mean(dim=0))


@torch.no_grad()
def as_albert(model: PreTrainedModel, kind: str, groups: int) -> PreTrainedModel:
    """A BERT with its head as an ALBERT; each group gets the weights of its lowest layer."""
    old: Any = model.config
    names = {name: getattr(old, name) for name in ("id2label", "label2id", "problem_type") if kind != "span"}
    dropout = old.hidden_dropout_prob if old.classifier_dropout is None else old.classifier_dropout
    config = AlbertConfig(
        **{name: getattr(old, name) for name in SAME},
        **names,
        embedding_size=old.hidden_size,
        num_hidden_groups=groups,
        classifier_dropout_prob=dropout,
    )
    albert: PreTrainedModel = heads.AUTO[kind].from_config(config)
    numbers = shapes.divided(old.num_hidden_layers, groups)
    outside = {name: tensor for name, tensor in model.state_dict().items() if not name.startswith("bert.encoder.")}
    weights = {
        name.replace("bert.", "albert.", 1).replace("pooler.dense", "pooler"): tensor
        for name, tensor in outside.items()
    }
    for group in range(groups):
        layer = backbones.layers(model)[numbers.index(group)]
        for part, place in IN_ALBERT.items():
            for last, tensor in layer.get_submodule(part).state_dict().items():
                weights[f"albert.encoder.albert_layer_groups.{group}.albert_layers.0.{place}.{last}"] = tensor
    mapping = "albert.encoder.embedding_hidden_mapping_in"
    weights |= {f"{mapping}.weight": torch.eye(old.hidden_size), f"{mapping}.bias": torch.zeros(old.hidden_size)}
    albert.load_state_dict(weights)
    return albert.eval()
