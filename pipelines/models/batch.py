"""The batch that a model reads in one step, and the predictions that it makes."""

from typing import NamedTuple

import torch

Batch = dict[str, torch.Tensor]  # input_ids, labels, ...: the first dimension of every tensor is the batch's rows
IGNORE = -100  # a label that is not learned from, as torch's cross_entropy has it


class Prediction(NamedTuple):
    """One thing that a model predicts N times, each time among C choices."""

    name: str
    logits: torch.Tensor  # (N, C)
    labels: torch.Tensor  # (N,) int64
    weight: float = 1.0  # in a loss of several predictions
