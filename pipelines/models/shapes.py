"""Shapes that a family's own config cannot express: heads and feed-forward rows per layer, and shared weights.

They are stored in the encoder's config under `KEY`, so they are saved with it. `take` applies them to a model that was
built from such a config; after that, its weights can be loaded.
"""

from typing import Any, NamedTuple

import torch
from torch import nn

from pipelines.core.errors import InputError, UsageError, choices, shown
from pipelines.models import backbones
from pipelines.models.factorized import Factorized

KEY = backbones.SHAPES
HEADS, ROWS, RANK, GROUPS = "heads", "intermediate", "embedding", "groups"
# families with query, key and value in one matrix, and both matrices of a gated MLP in another -> paths in a layer
FUSED = {"modernbert": ("attn.Wqkv", "attn.Wo", "mlp.Wi", "mlp.Wo")}
INTERMEDIATE = ("intermediate_size", "hidden_dim")  # names of a config's number of feed-forward rows


class Between(NamedTuple):
    """The linear layers before and after the heads or rows that are removed; they share this width.

    A matrix of `before` is (blocks * width, H): a matrix of query, key and value has three blocks. `after` is
    (H, width).
    """

    before: list[tuple[nn.Linear, int]]
    after: nn.Linear


def attention(model: nn.Module, number: int) -> Between:
    """The linear layers around the heads of the encoder's layer `number`."""
    if fused := FUSED.get(_family(model)):
        layer: Any = backbones.layers(model)[number]
        return Between([(layer.get_submodule(fused[0]), 3)], layer.get_submodule(fused[1]))
    parts = backbones.parts(model, number)
    return Between([(parts[name], 1) for name in ("query", "key", "value")], parts["output"])


def feed_forward(model: nn.Module, number: int) -> Between:
    """The linear layers around the feed-forward rows of the encoder's layer `number`."""
    if fused := FUSED.get(_family(model)):
        layer: Any = backbones.layers(model)[number]
        return Between([(layer.get_submodule(fused[2]), 2)], layer.get_submodule(fused[3]))
    parts = backbones.parts(model, number)
    return Between([(parts["up"], 1)], parts["down"])


def head_size(model: nn.Module) -> int:
    """The number of dimensions of a head; it does not change when heads are removed."""
    config = backbones.encoder(model).config
    width = getattr(config, "true_hidden_size", config.hidden_size)  # MobileBERT's layers are narrower
    return int(width) // int(config.num_attention_heads)


def heads(model: nn.Module) -> list[int]:
    """The number of heads of each layer."""
    size = head_size(model)
    return [attention(model, i).after.in_features // size for i in range(len(backbones.layers(model)))]


def rows(model: nn.Module) -> list[int]:
    """The number of feed-forward rows of each layer."""
    return [feed_forward(model, i).after.in_features for i in range(len(backbones.layers(model)))]


@torch.no_grad()
def keep_heads(model: nn.Module, number: int, stay: list[int]) -> None:
    """Keep only these heads in the layer `number`; their outputs do not change. Call `note` afterwards."""
    size = head_size(model)
    _check("head", number, stay, heads(model)[number])
    _cut(attention(model, number), torch.tensor([head * size + i for head in stay for i in range(size)]))
    counts = {"num_attention_heads": len(stay), "n_heads": len(stay), "all_head_size": len(stay) * size}
    for module in backbones.layers(model)[number].modules():
        for name, value in counts.items():
            if name in vars(module):
                setattr(module, name, value)


@torch.no_grad()
def keep_rows(model: nn.Module, number: int, stay: list[int]) -> None:
    """Keep only these feed-forward rows in the layer `number`. Call `note` afterwards."""
    _check("row", number, stay, rows(model)[number])
    _cut(feed_forward(model, number), torch.tensor(stay))


def _check(what: str, number: int, stay: list[int], count: int) -> None:
    if not stay:
        raise InputError(f"layer {number}: all {count} {what}s would be removed; at least one must stay")
    if max(stay) >= count:
        raise InputError(f"layer {number} has {what}s 0 to {count - 1}; there is no {what} {max(stay)}")


def _cut(between: Between, stay: torch.Tensor) -> None:
    width = between.after.in_features
    for linear, blocks in between.before:
        places = torch.cat([block * width + stay for block in range(blocks)])
        linear.weight, linear.out_features = _part(linear.weight, linear.weight[places]), len(places)
        if linear.bias is not None:
            linear.bias = _part(linear.bias, linear.bias[places])
    after = between.after
    after.weight, after.in_features = _part(after.weight, after.weight[:, stay]), len(stay)


def _part(whole: torch.Tensor, part: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(part.contiguous(), requires_grad=whole.requires_grad)


def note(model: nn.Module) -> None:
    """Write the model's shapes into its encoder's config, under the family's own keys if they can express them."""
    config = backbones.encoder(model).config
    shapes: dict[str, Any] = dict(getattr(config, KEY, None) or {})
    counts, widths = heads(model), rows(model)
    if {*counts} != {config.num_attention_heads}:
        shapes[HEADS] = counts
    if len({*widths}) == 1:
        shapes.pop(ROWS, None)
        for name in INTERMEDIATE:
            if hasattr(config, name):
                setattr(config, name, widths[0])
    else:
        shapes[ROWS] = widths
    write(config, shapes)


def add(model: nn.Module, name: str, value: Any) -> None:
    """Add a shape to the config, and apply it to the model."""
    config = backbones.encoder(model).config
    write(config, {**(getattr(config, KEY, None) or {}), name: value})
    take(model)


def write(config: Any, shapes: dict[str, Any]) -> None:
    """Set the shapes in an encoder's config to `shapes`."""
    if shapes:
        setattr(config, KEY, shapes)
    elif hasattr(config, KEY):
        delattr(config, KEY)


def of(model: nn.Module) -> dict[str, Any]:
    """The shapes in the model's config; {} if the family's own config expresses all of them."""
    return getattr(backbones.encoder(model).config, KEY, None) or {}


def require_own(model: nn.Module, method: str) -> None:
    """Raise UsageError if the config says that layers share weights, which changing single layers would undo."""
    if GROUPS in of(model):
        raise UsageError(
            f"params.yaml: compress: method: {method}: it changes single layers, but layers of the teacher share "
            "weights; share the layers afterwards"
        )


def divided(count: int, groups: int) -> list[int]:
    """The group of each of `count` layers that share weights in groups, as in transformers' AlbertTransformer."""
    return [int(i / (count / groups)) for i in range(count)]


def take(model: nn.Module) -> None:
    """Apply the shapes in its config to a model; shapes that it already has are not changed."""
    noted = of(model)
    _require_noted(noted, len(backbones.layers(model)))
    if RANK in noted:
        Factorized.put(backbones.encoder(model), noted[RANK])
    for number, count in enumerate(noted.get(HEADS, ())):
        if count != heads(model)[number]:
            keep_heads(model, number, _first(count, heads(model)[number]))
    for number, count in enumerate(noted.get(ROWS, ())):
        if count != rows(model)[number]:
            keep_rows(model, number, _first(count, rows(model)[number]))
    if GROUPS in noted:
        _share(backbones.layers(model), noted[GROUPS])


def _require_noted(noted: Any, layers: int) -> None:
    """Raise InputError for shapes that no method writes; they may come from a damaged file."""
    if not isinstance(noted, dict):
        raise InputError(f"{KEY}: {shown(noted)}: it must map names to values")
    for name, value in noted.items():
        if name not in (HEADS, ROWS, RANK, GROUPS):
            raise InputError(f"{KEY}: {choices('shape', name, (HEADS, ROWS, RANK, GROUPS))}")
        numbers = [value] if name == RANK else value
        least = 0 if name == GROUPS else 1
        if not isinstance(numbers, list) or not all(type(number) is int and number >= least for number in numbers):
            what = "a whole number is" if name == RANK else "a whole number for each layer is"
            raise InputError(f"{KEY}: {name}: {shown(value)}: {what} expected")
        if name != RANK and len(numbers) != layers:
            raise InputError(f"{KEY}: {name} has {len(numbers)} numbers; the model has {layers} layers")


def _first(count: int, there_are: int) -> list[int]:
    """The numbers below `count`, at most one more than exist: that one is enough for an error."""
    return [*range(min(count, there_are + 1))]


def _share(layers: nn.ModuleList, groups: list[int]) -> None:
    """Share the parameters of layers in one group: each is taken from the group's lowest layer that has it.

    Layers may lack a parameter; ModernBERT's first layer lacks a norm.
    """
    shared: dict[tuple[int, str], nn.Parameter] = {}
    for group, layer in zip(groups, layers, strict=True):
        for name, parameter in [*layer.named_parameters(remove_duplicate=False)]:
            path, _, last = name.rpartition(".")
            setattr(layer.get_submodule(path), last, shared.setdefault((group, name), parameter))


def _family(model: nn.Module) -> str:
    return str(backbones.encoder(model).config.model_type)
