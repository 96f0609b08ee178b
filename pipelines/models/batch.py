"""The batch that a model reads in one step, and the predictions that it makes."""

from typing import NamedTuple

import torch

Batch = dict[str, torch.Tensor]  # input_ids, labels, ...: the first dimension of every tensor is the batch's rows
IGNORE = -100  # a label without a loss, as in torch's cross_entropy


class Prediction(NamedTuple):
    """One output of a model: N predictions among C choices each."""

    name: str
    logits: torch.Tensor  # (N, C)
    labels: torch.Tensor  # (N,) int64
    weight: float = 1.0  # weight in a sum of losses
