"""The part of a model that trains: all of it, the top layers with one learning rate each, or the head alone."""

from torch import nn

from pipelines.core.errors import UsageError
from pipelines.entries.finetune import Finetune
from pipelines.models import backbones, heads
from pipelines.training.optim import Group


def groups(model: nn.Module, params: Finetune) -> list[Group]:
    """Freeze the parameters that the strategy freezes; return the others, with their learning rates."""
    layers = list(backbones.layers(model))
    head = {"params": heads.head_parameters(model), "lr": params.head_learning_rate or params.learning_rate}
    body = backbones.encoder_parameters(model)
    if params.strategy == "full":
        return (
            [*_decayed(model, params), head] if params.layer_decay < 1 else [_group(body, params.learning_rate), head]
        )
    top = layers[len(layers) - params.top_k :] if params.strategy == "top_k" else []
    if params.strategy == "top_k" and params.top_k > len(layers):
        raise UsageError(f"params.yaml: finetune: top_k: {params.top_k}; the encoder has only {len(layers)} layers")
    rates = (params.layer_learning_rates if top else []) or [params.learning_rate] * len(top)
    if len(rates) != len(top):
        raise UsageError(
            f"params.yaml: finetune: layer_learning_rates: {len(rates)} rates for the top {len(top)} layers; "
            "give one for each, from the top down"
        )
    trained: list[Group] = [
        {"params": list(layer.parameters()), "lr": lr} for layer, lr in zip(reversed(top), rates, strict=True)
    ]
    if trained:
        trained[0]["params"] += [p for part in backbones.top(model) for p in part.parameters()]
    moving = {id(p) for group in trained for p in group["params"]}
    for parameter in body:
        parameter.requires_grad_(id(parameter) in moving)
    return [*trained, head]


def _decayed(model: nn.Module, params: Finetune) -> list[Group]:
    """One group per layer, each rate `layer_decay` times the one above; the embeddings come last (Sun et al. 2019)."""
    down = [[*backbones.top(model), *list(backbones.layers(model))[-1:]]]
    down += [[layer] for layer in reversed(list(backbones.layers(model))[:-1])]
    grouped = [[p for part in parts for p in part.parameters()] for parts in down]
    known = {id(p) for group in grouped for p in group}
    grouped.append([p for p in backbones.encoder_parameters(model) if id(p) not in known])
    return [_group(group, params.learning_rate * params.layer_decay**i) for i, group in enumerate(grouped)]


def _group(parameters: list[nn.Parameter], rate: float) -> Group:
    return {"params": parameters, "lr": rate}


def train_mode(model: nn.Module) -> None:
    """Switch dropout on, except in layers that do not train: a frozen layer then gives the same features every time.

    If the embeddings do not train, nor does the dropout of XLNet, and of DeBERTa's convolution, outside the layers.
    """
    model.train()
    embeddings, layers = backbones.embeddings(model), backbones.layers(model)
    if not any(_trains(part) for part in embeddings):
        backbones.encoder(model).eval()
    for part in (*embeddings, *layers):
        part.train(_trains(part))


def _trains(part: nn.Module) -> bool:
    return any(p.requires_grad for p in part.parameters())


def describe(model: nn.Module) -> str:
    """A sentence with the number of parameters that train, the number of all parameters, and the parts that train."""
    parts = {"embeddings": backbones.embeddings(model)}
    parts |= {f"layer {i}": [layer] for i, layer in enumerate(backbones.layers(model), start=1)}
    trains = [name for name, modules in parts.items() if any(_trains(part) for part in modules)]
    total = sum(p.numel() for p in model.parameters())
    train = sum(p.numel() for p in model.parameters() if p.requires_grad)
    return f"{train:,} of {total:,} parameters train: {', '.join([*trains, 'head'])}"
