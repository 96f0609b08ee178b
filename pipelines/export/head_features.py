"""Export the features (B, F) that a head reads, as an output of the graph beside the logits.

ONNX Runtime fuses nothing across an output, so the encoder below and the head above compute the same bits whether they
run together or apart (see pipelines.inference.graph_parts).
"""

from typing import Any

import torch
from torch import nn

from pipelines.export.exact_rows import OneRowMore
from pipelines.inference.runtimes import FEATURES, LOGITS, VECTOR_KINDS


class WithFeatures(nn.Module):
    """An exportable model that also returns the input (B, F) of the first layer over features: (B, C), (B, F)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features: list[torch.Tensor] = []

        def note(layer: nn.Module, arguments: Any) -> None:
            features.append(arguments[0])

        layers = [layer for layer in self.model.modules() if isinstance(layer, OneRowMore)]
        hooks = [layer.register_forward_pre_hook(note) for layer in layers]
        logits = self.model(*inputs)
        for hook in hooks:
            hook.remove()
        return logits, features[0]


def added(model: nn.Module, kind: str) -> tuple[nn.Module, list[str]]:
    """The model to export, with the features among its outputs if the kind has any, and the names of its outputs."""
    if kind not in VECTOR_KINDS:
        return model, [LOGITS]
    return WithFeatures(model), [LOGITS, FEATURES]
