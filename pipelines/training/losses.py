"""Losses as sums with their counts, so that the mean over all workers is exact for any division of the rows."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn

from pipelines.models import backbones
from pipelines.models.batch import IGNORE, Batch, Prediction, labelled
from pipelines.training.batches import Batches

Predict = Callable[[nn.Module, Batch], list[Prediction]]
Sums = tuple[torch.Tensor, torch.Tensor]  # the summed loss, and the count to divide it by
Loss = Callable[[nn.Module, Batch, int], Sums]  # (model, batch, number of the step) -> Sums


def classification(
    model: nn.Module, batch: Batch, step: int = 0, label_smoothing: float = 0.0, weights: tuple[float, ...] = ()
) -> Sums:
    """`cross_entropy` of the model's logits."""
    return cross_entropy(model(**backbones.inputs(model, batch)).logits, batch["labels"], label_smoothing, weights)


def cross_entropy(
    logits: torch.Tensor, labels: torch.Tensor, label_smoothing: float = 0.0, weights: tuple[float, ...] = ()
) -> Sums:
    """Cross-entropy of (B, C) logits against labels (B,), or of (B, T, C) logits against tags (B, T).

    `weights` holds a number for each class, 1 on average over the training rows.
    """
    total = nn.functional.cross_entropy(
        logits.float().flatten(0, -2), labels.flatten(), ignore_index=IGNORE, reduction="sum",
        label_smoothing=label_smoothing, weight=_on(logits.device, weights) if weights else None,
    )  # fmt: skip
    return total, (labels != IGNORE).sum()


@cache
def _on(device: torch.device, weights: tuple[float, ...]) -> torch.Tensor:
    """The weights as a tensor, sent to the device only once, because sending waits for a GPU."""
    with torch.inference_mode(False):  # the cached tensor may be used in a backward pass later
        return torch.tensor(weights, device=device)


def regression(model: nn.Module, batch: Batch, step: int = 0) -> Sums:
    """`squared_error` of the model's predicted numbers."""
    return squared_error(model(**backbones.inputs(model, batch)).logits, batch["labels"])


def squared_error(predicted: torch.Tensor, labels: torch.Tensor) -> Sums:
    """Squared error of numbers (B, 1) against labels (B,)."""
    known = labelled(labels)
    # not an index: the host would wait for a GPU to know how many there are; the square of NaN would have a gradient
    return torch.where(known, predicted[:, 0].float() - labels, 0.0).square().sum(), known.sum()


def span(model: nn.Module, batch: Batch, step: int = 0, label_smoothing: float = 0.0) -> Sums:
    """`ends` of the model's logits."""
    output = model(**backbones.inputs(model, batch))
    logits = torch.stack([output.start_logits, output.end_logits], dim=-1)
    return ends(logits, batch["attention_mask"], batch["labels"], label_smoothing)


def ends(logits: torch.Tensor, mask: torch.Tensor, labels: torch.Tensor, label_smoothing: float = 0.0) -> Sums:
    """Mean of the cross-entropies of a span's first and last token (Devlin et al. 2018, section 4.2).

    Logits (B, T, 2), labels (B, 2). Padding has probability 0, because no answer lies in it, also with label smoothing.
    """
    inside = mask.bool().repeat(2, 1)
    both = torch.cat(logits.float().unbind(-1)).masked_fill(~inside, -1e9)  # (2B, T)
    right = torch.cat(labels.unbind(1))
    total = nn.functional.cross_entropy(both, right, ignore_index=IGNORE, reduction="sum")
    if label_smoothing:
        even = -(both.log_softmax(dim=-1) * inside).sum(dim=-1) / inside.sum(dim=-1)
        total = (1 - label_smoothing) * total + label_smoothing * even.where(right != IGNORE, 0.0).sum()
    return total / 2, (labels[:, 0] != IGNORE).sum()


def of_logits(kind: str, logits: torch.Tensor, batch: Batch) -> Sums:
    """The loss of fine-tuning on rows of `kind`, for the logits of a model on the batch.

    Logits: (B, C), (B, 1) for a number, (B, T, C) for tags, (B, T, 2) for the ends of a span.
    """
    if kind == "regression":
        return squared_error(logits, batch["labels"])
    if kind == "span":
        return ends(logits, batch["attention_mask"], batch["labels"])
    return cross_entropy(logits, batch["labels"])


def for_kind(kind: str, label_smoothing: float = 0.0, weights: tuple[float, ...] = ()) -> Loss:
    """The loss of fine-tuning on rows of `kind`."""
    if kind == "regression":
        return regression
    if kind == "span":
        return partial(span, label_smoothing=label_smoothing)
    return partial(classification, label_smoothing=label_smoothing, weights=weights)


def balanced(labels: Any, classes: Any) -> tuple[float, ...]:
    """Weights that make every class of labels (N,) count equally; 1 on average over the rows, 0 for absent classes."""
    counts = np.bincount(labels[labels != IGNORE], minlength=classes)
    present = max(1, int((counts > 0).sum()))
    return tuple(float(counts.sum() / (present * count)) if count else 0.0 for count in counts)


class Pretraining:
    """The loss of an objective's predictions.

    With one prediction: the sum of its cross-entropies, and their number. With several: the weighted sum of their mean
    cross-entropies, times the number of rows, and the number of rows.

    Args:
        compares_rows: whether a prediction for a row depends on the other rows of its batch.
    """

    def __init__(self, predict: Predict, compares_rows: bool = False) -> None:
        self.predict, self.compares_rows = predict, compares_rows
        self.whole: Batch | None = None

    def expect(self, whole: Batch | None) -> None:
        """Note the whole batch whose parts come next; None if it comes in one part."""
        self.whole = whole

    def __call__(self, model: nn.Module, batch: Batch, step: int = 0) -> Sums:
        predictions = self.predict(model, batch)
        sums = [_cross_entropy(prediction) for prediction in predictions]
        if len(predictions) == 1:
            return sums[0]
        rows = sums[0][0].new_tensor(len(batch["input_ids"]))
        means = [
            prediction.weight * total / (self._share(prediction, len(batch["input_ids"])) or count.clamp(min=1))
            for prediction, (total, count) in zip(predictions, sums, strict=True)
        ]
        return torch.stack(means).sum() * rows, rows

    def _share(self, prediction: Prediction, rows: int) -> float:
        """The share of a part of `rows` rows in the whole batch's count of labels, which its rows have unequally.

        0 if the count of the part itself is to be taken.
        """
        if self.whole is None or not prediction.of:
            return 0.0
        labels = self.whole[prediction.of]
        return int((labels != IGNORE).sum()) * rows / len(labels)


def held_out(model: nn.Module, batches: Batches, predict: Predict) -> dict[str, float]:
    """For each prediction: the mean cross-entropy, its exponential (the perplexity) and the accuracy."""
    sums: dict[str, torch.Tensor] = {}
    device = next(model.parameters()).device
    for step in range(len(batches)):
        batch = {name: tensor.to(device) for name, tensor in batches[step].items()}
        for prediction in predict(model, batch):
            total, count = _cross_entropy(prediction)
            right = (prediction.logits.argmax(dim=-1) == prediction.labels).sum()
            numbers = torch.stack([total.double(), right.double(), count.double()]).cpu()
            sums[prediction.name] = sums.get(prediction.name, torch.zeros(3)) + numbers
    scores: dict[str, float] = {}
    for name, (total, right, count) in ((name, numbers.tolist()) for name, numbers in sums.items()):
        mean = total / max(1, count)
        scores |= {f"{name}_loss": mean, f"{name}_perplexity": torch.tensor(mean).exp().item()}
        scores[f"{name}_accuracy"] = right / max(1, count)
    return {name: round(value, 6) for name, value in scores.items()}


def _cross_entropy(prediction: Prediction) -> Sums:
    total = nn.functional.cross_entropy(
        prediction.logits.float(), prediction.labels, ignore_index=IGNORE, reduction="sum"
    )
    return total, (prediction.labels != IGNORE).sum()
