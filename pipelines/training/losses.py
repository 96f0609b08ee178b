"""Losses as sums with their counts, so that a mean over all workers is exact whatever each of them got."""

import torch
from torch import nn

from pipelines.models.batch import IGNORE, Batch


def classification(model: nn.Module, batch: Batch, label_smoothing: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of (B, C) logits, summed over the labelled rows, and their number."""
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    logits, labels = model(**inputs).logits, batch["labels"]
    total = nn.functional.cross_entropy(
        logits.float(), labels, ignore_index=IGNORE, reduction="sum", label_smoothing=label_smoothing
    )
    return total, (labels != IGNORE).sum()
