"""The parts of a batch: the rows that a worker takes, and how many it computes at once."""

import torch

from pipelines.acceleration.varlen_attention import sent
from pipelines.models.batch import IGNORE, Batch


def of(batch: Batch, rank: int, world: int, count: int) -> list[Batch]:
    """This worker's rows of the batch in at most `count` parts; every worker has the same number of parts."""
    if world == count == 1:
        return [batch]
    rows = len(next(iter(batch.values())))
    most = -(-rows // world)  # rows of the worker that has the most
    parts = []
    for i in range(min(count, most)):
        mine = range(rows)[rank::world][i :: min(count, most)]
        parts.append({name: _at(mine, tensor) for name, tensor in batch.items()} if mine else _unlearned(batch))
    return parts


def on_device(part: Batch, device: torch.device) -> Batch:
    """The part on `device`; the host does not wait for a GPU."""
    return {name: sent(tensor, device) for name, tensor in part.items()}


def _at(rows: range, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor[list(rows)]` by slicing: with a list of indices the host would wait for a GPU."""
    return tensor[rows.start : rows.stop : rows.step].contiguous()


def _unlearned(batch: Batch) -> Batch:
    """One row without labels, for a worker that has no rows."""
    learned = ("labels", "order")
    return {
        name: tensor[:1] if name not in learned else torch.full_like(tensor[:1], IGNORE)
        for name, tensor in batch.items()
    }
