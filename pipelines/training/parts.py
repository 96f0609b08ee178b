"""The parts of a batch: the rows that a worker takes, and how many it computes at once."""

from typing import NamedTuple

import torch

from pipelines.acceleration.varlen_attention import sent
from pipelines.models.batch import Batch


class Part(NamedTuple):
    """Rows of a batch that a worker computes at once."""

    rows: Batch
    # False: a row of another worker, for a worker without rows of its own. The workers add up their gradients after
    # every part, so each computes equally many parts. Its loss is not marked by labels: not every loss reads them
    counts: bool = True


def of(batch: Batch, rank: int, world: int, count: int) -> list[Part]:
    """This worker's rows of the batch in at most `count` parts; every worker has the same number of parts."""
    if world == count == 1:
        return [Part(batch)]
    rows = len(next(iter(batch.values())))
    most = -(-rows // world)  # rows of the worker that has the most
    parts = []
    for i in range(min(count, most)):
        mine = range(rows)[rank::world][i :: min(count, most)]
        parts.append(Part({name: _at(mine or range(1), tensor) for name, tensor in batch.items()}, bool(mine)))
    return parts


def on_device(part: Batch, device: torch.device) -> Batch:
    """The part on `device`; the host does not wait for a GPU."""
    return {name: sent(tensor, device) for name, tensor in part.items()}


def _at(rows: range, tensor: torch.Tensor) -> torch.Tensor:
    """`tensor[list(rows)]` by slicing: with a list of indices the host would wait for a GPU."""
    return tensor[rows.start : rows.stop : rows.step].contiguous()
