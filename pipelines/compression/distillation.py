"""The functions that distillation methods share: soft targets for every kind of rows, and the count of each row.

B rows, T tokens, C classes. A method's losses are sums over rows: each row's loss times its count.
"""

from typing import Annotated

import torch
from pydantic import Field
from torch import nn

from pipelines.compression import states
from pipelines.models.batch import Batch, labelled
from pipelines.training import losses

Temperature = Annotated[float, Field(ge=0.01, le=1000)]  # outside, the softmax is almost uniform or almost one-hot


def soft_cross_entropy(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    """-T^2 sum_c p_c log q_c of logits (..., C), p and q at temperature T: (...) (Hinton et al. 2015, section 2).

    The gradients of soft targets shrink as 1/T^2; the factor T^2 preserves their weight relative to hard labels
    (section 2).
    """
    soft_labels = (teacher.float() / temperature).softmax(dim=-1)
    return -(soft_labels * (student.float() / temperature).log_softmax(dim=-1)).sum(dim=-1) * temperature**2


def counts(kind: str, batch: Batch) -> torch.Tensor:
    """The count of each row (B,): the number of its tags (tagging), else 1; 0 without labels."""
    known = labelled(batch["labels"])
    if kind == "tagging":
        return known.sum(dim=1)
    return (known if known.dim() == 1 else known[:, 0]).long()


def soft_targets(
    kind: str, student: torch.Tensor, teacher: torch.Tensor, batch: Batch, temperature: float = 1.0
) -> torch.Tensor:
    """The summed `soft_cross_entropy` of logits in the shapes of `states.ForwardStates`.

    For tagging, only tokens with a tag count. For a span, the loss is the mean over both ends, and padding has
    probability 0. For regression, which has no classes, the loss is the squared difference.
    """
    if kind == "regression":
        return squared(kind, student, teacher, batch)
    if kind == "span":
        outside = ~batch["attention_mask"].bool()[:, None]
        student, teacher = (logits.float().transpose(1, 2).masked_fill(outside, -1e9) for logits in (student, teacher))
        row_losses = soft_cross_entropy(student, teacher, temperature).mean(dim=1)
        return (row_losses * counts(kind, batch)).sum()
    return soft_cross_entropy(student, teacher, temperature)[labelled(batch["labels"])].sum()


def soft_and_hard(
    model: nn.Module, batch: Batch, targets: dict[str, torch.Tensor], *, kind: str, temperature: float, soft: float
) -> losses.Sums:
    """`soft` * T^2 CE(p_T, q_T) + (1 - `soft`) * CE(labels, q), T the temperature (Hinton et al. 2015, section 2)."""
    logits = states.logits(model, kind, batch)
    hard, count = losses.of_logits(kind, logits, batch)
    return soft * soft_targets(kind, logits, targets["logits"], batch, temperature) + (1 - soft) * hard, count


def squared(kind: str, student: torch.Tensor, teacher: torch.Tensor, batch: Batch) -> torch.Tensor:
    """The summed ||z_student - z_teacher||^2 of logits in the shapes of `states.ForwardStates` (Tang et al. 2019)."""
    distances = (student.float() - teacher.float()).square().sum(dim=-1)
    if kind == "span":
        return ((distances * batch["attention_mask"]).sum(dim=1) * counts(kind, batch)).sum()
    return distances[labelled(batch["labels"])].sum()


def per_row(of_tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """The mean of (B, T), or (B, choices, T), over the tokens of each row: (B,)."""
    inside = mask.to(of_tokens.dtype)
    return (of_tokens * inside).flatten(1).sum(dim=1) / inside.flatten(1).sum(dim=1)
