"""Work that a head's answer does not need, left out while it trains: padding, and the last layer beyond [CLS]."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from pipelines.models import first_token, side_by_side


@contextmanager
def steps(model: nn.Module, kind: str) -> Iterator[None]:
    """Inside the block a step of `model`, a head for rows of `kind`, gives what it gave before, sooner."""
    with first_token.only(model, kind), side_by_side.rows(model):
        yield
