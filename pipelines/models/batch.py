"""The batch that a model reads in one step, and the predictions that it makes."""

from typing import NamedTuple

import torch

Batch = dict[str, torch.Tensor]  # input_ids, labels, ...: the first dimension of every tensor is the batch's rows
IGNORE = -100  # a label without a loss, as in torch's cross_entropy; among floats, where -100 is a label, NaN is it


def labelled(labels: torch.Tensor) -> torch.Tensor:
    """Return whether each label has a loss, as a tensor of bools in the shape of `labels`."""
    return ~labels.isnan() if labels.is_floating_point() else labels != IGNORE


class Prediction(NamedTuple):
    """One output of a model: N predictions among C choices each."""

    name: str
    logits: torch.Tensor  # (N, C)
    labels: torch.Tensor  # (N,) int64
    weight: float = 1.0  # weight in a sum of losses
    of: str = ""  # the labels of the batch that it predicts; "" if it predicts equally much of every row
