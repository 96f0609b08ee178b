"""Losses as sums with their counts, so that a mean over all workers is exact whatever each of them got."""

from collections.abc import Callable

import torch
from torch import nn

from pipelines.models.batch import IGNORE, Batch, Prediction
from pipelines.training.batches import Batches

Predict = Callable[[nn.Module, Batch], list[Prediction]]


def classification(model: nn.Module, batch: Batch, label_smoothing: float = 0.0) -> tuple[torch.Tensor, torch.Tensor]:
    """Cross-entropy of (B, C) logits, summed over the labelled rows, and their number."""
    inputs = {name: tensor for name, tensor in batch.items() if name != "labels"}
    logits, labels = model(**inputs).logits, batch["labels"]
    total = nn.functional.cross_entropy(
        logits.float(), labels, ignore_index=IGNORE, reduction="sum", label_smoothing=label_smoothing
    )
    return total, (labels != IGNORE).sum()


class Pretraining:
    """The loss of an objective's predictions.

    One prediction: its cross-entropy summed, and how many there are. Several: the weighted sum of their mean
    cross-entropies, counted once for every row.
    """

    def __init__(self, predict: Predict) -> None:
        self.predict = predict

    def __call__(self, model: nn.Module, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.predict(model, batch)
        sums = [_cross_entropy(each) for each in found]
        if len(found) == 1:
            return sums[0]
        rows = sums[0][0].new_tensor(len(batch["input_ids"]))
        means = [each.weight * total / count.clamp(min=1) for each, (total, count) in zip(found, sums, strict=True)]
        return torch.stack(means).sum() * rows, rows


def held_out(model: nn.Module, batches: Batches, predict: Predict) -> dict[str, float]:
    """Of each prediction the mean cross-entropy, its exponential (the perplexity) and the share that is right."""
    sums: dict[str, torch.Tensor] = {}
    device = next(model.parameters()).device
    for step in range(len(batches)):
        batch = {name: tensor.to(device) for name, tensor in batches[step].items()}
        for each in predict(model, batch):
            total, count = _cross_entropy(each)
            right = (each.logits.argmax(dim=-1) == each.labels).sum()
            numbers = torch.stack([total.double(), right.double(), count.double()]).cpu()
            sums[each.name] = sums.get(each.name, torch.zeros(3)) + numbers
    scores: dict[str, float] = {}
    for name, (total, right, count) in ((name, numbers.tolist()) for name, numbers in sums.items()):
        mean = total / max(1, count)
        scores |= {f"{name}_loss": mean, f"{name}_perplexity": torch.tensor(mean).exp().item()}
        scores[f"{name}_accuracy"] = right / max(1, count)
    return {name: round(value, 6) for name, value in scores.items()}


def _cross_entropy(found: Prediction) -> tuple[torch.Tensor, torch.Tensor]:
    total = nn.functional.cross_entropy(found.logits.float(), found.labels, ignore_index=IGNORE, reduction="sum")
    return total, (found.labels != IGNORE).sum()
