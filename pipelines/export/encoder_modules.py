"""The two graphs of an exported encoder: from ids to the states of all tokens, and from states to logits of pieces."""

import torch
from torch import nn

from pipelines.models import backbones


class States(nn.Module):
    """An encoder as a function of positional inputs (B, T) to its last states (B, T, H)."""

    def __init__(self, encoder: nn.Module, names: tuple[str, ...]) -> None:
        super().__init__()
        self.encoder, self.names = encoder, names

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        batch = dict(zip(self.names, inputs, strict=True))
        states: torch.Tensor = self.encoder(**backbones.inputs(self.encoder, batch)).last_hidden_state
        return states


class MaskHead(nn.Module):
    """The masked-token head of a model: states (N, H) to logits (N, V)."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return backbones.mlm_logits(self.model, inputs[0])
