"""The losses of steps, kept on a GPU until the host reads them: reading a number waits for all work before it."""

import math

import torch

from pipelines.core.errors import InputError
from pipelines.training.batches import Batches

MOST = 20  # steps whose losses may stay unread


class Unread(dict[int, torch.Tensor]):
    """The unread losses: step -> its mean loss, () float64."""

    def read(self, batches: Batches) -> dict[int, float]:
        """The losses of all steps, in order; they stay here. Raises InputError at the first that is not finite."""
        losses = dict(zip(self, torch.stack([*self.values()]).tolist(), strict=True))
        for step, loss in losses.items():
            if not math.isfinite(loss):
                raise InputError(_not_finite(step, loss, batches))
        return losses


def _not_finite(step: int, loss: float, batches: Batches) -> str:
    rows = getattr(batches, "rows", None)
    names = f" on rows {', '.join(map(str, rows(step)[:8]))}, ..." if rows else ""
    return (
        f"step {step + 1}: the loss is {loss}{names}; the previous checkpoint is kept; try a smaller learning_rate "
        "or a max_grad_norm"
    )
