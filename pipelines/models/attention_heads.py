"""Remove attention heads (Michel et al. 2019, "Are Sixteen Heads Really Better than One?")."""

import torch
from torch import nn

from pipelines.core.errors import InputError
from pipelines.models import backbones


def count(model: nn.Module, number: int) -> int:
    """How many heads the encoder's layer `number` has."""
    return backbones.parts(model, number)["query"].out_features // size(model)


def size(model: nn.Module) -> int:
    """Dimensions of a head."""
    config = backbones.encoder(model).config
    width = getattr(config, "true_hidden_size", config.hidden_size)  # MobileBERT's layers are narrower
    return int(width) // int(config.num_attention_heads)


@torch.no_grad()
def remove(model: nn.Module, number: int, heads: set[int]) -> None:
    """Remove these heads from the encoder's layer `number`: rows of query, key and value, and columns of the output.

    The other heads compute the same as before, and keep their size. At least one head must stay.
    """
    parts, width, every = backbones.parts(model, number), size(model), range(count(model, number))
    if unknown := heads - set(every):
        raise InputError(f"layer {number} has heads 0 to {len(every) - 1}; there is no head {min(unknown)}")
    stay = [head for head in every if head not in heads]
    if not stay:
        raise InputError(f"layer {number}: all of its {len(every)} heads are to go; at least one must stay")
    places = torch.tensor([head * width + i for head in stay for i in range(width)])
    for name in ("query", "key", "value"):
        part = parts[name]
        part.weight, part.out_features = nn.Parameter(part.weight[places]), len(places)
        if part.bias is not None:
            part.bias = nn.Parameter(part.bias[places])
    output = parts["output"]
    output.weight, output.in_features = nn.Parameter(output.weight[:, places]), len(places)
    for module in backbones.layers(model)[number].modules():
        for name, value in {
            "num_attention_heads": len(stay),
            "all_head_size": len(places),
            "n_heads": len(stay),
        }.items():
            if name in vars(module):
                setattr(module, name, value)
