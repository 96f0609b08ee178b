"""Export a model so that the bits of a row's logits do not depend on the other rows of its batch.

ONNX Runtime multiplies a matrix of one row by another kernel than a matrix of several rows, and the last bits of the
result differ. A layer over tokens has the rows of all tokens, at least eight. A layer over features (B, H), such as the
classifier, has one row for a batch of one. Such a layer computes one more row here, so it never has a single one.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from pipelines.inference.runtimes import ANY, PAIRS
from pipelines.models.quantization import matrices


class OneRowMore(nn.Module):
    """A layer (B, H) to (B, N) that computes the first row twice and drops the copy."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(torch.cat([x, x[:1]]))[:-1]


def exportable(model: nn.Module, *inputs: torch.Tensor) -> nn.Module:
    """A copy of `model` with `OneRowMore` around each layer that multiplies features (B, H) by a matrix.

    Args:
        inputs: an example of the model's inputs.
    """
    model = copy.deepcopy(model)
    for name in _over_features(model, inputs):
        matrices.replace(model, name, OneRowMore(model.get_submodule(name)))
    return model


def _over_features(model: nn.Module, inputs: tuple[torch.Tensor, ...]) -> list[str]:
    """The names of the layers that multiply (B, H) by their matrix."""
    names: dict[str, None] = {}

    def noting(name: str) -> Callable[[nn.Module, Any], None]:
        def note(layer: nn.Module, arguments: Any) -> None:
            if arguments and arguments[0].dim() == 2 and arguments[0].is_floating_point():
                names[name] = None

        return note

    layers = [(name, layer) for name, layer in model.named_modules() if _has_matrix(layer)]
    hooks = [layer.register_forward_pre_hook(noting(name)) for name, layer in layers]
    with torch.inference_mode():
        model(*inputs)
    for hook in hooks:
        hook.remove()
    return list(names)


def _has_matrix(layer: nn.Module) -> bool:
    weight = getattr(layer, "weight", None)
    return isinstance(weight, torch.Tensor) and weight.dim() == 2


def batching(model: nn.Module) -> str:
    """The batches that keep the rows of the exported model exact; see pipelines.inference.runtimes."""
    return PAIRS if any(isinstance(part, nn.RNNBase) for part in model.modules()) else ANY
