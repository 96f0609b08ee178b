"""Work that a head's answer does not need, left out while it trains: padding, unused words, the last layer beyond [CLS]."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from torch import nn

from pipelines.models import first_token, side_by_side, used_words


@contextmanager
def steps(model: nn.Module, kind: str, ids: np.ndarray, pad_id: int) -> Iterator[None]:
    """Inside the block a step of `model`, a head for rows of `kind`, gives what it gave before, sooner.

    `ids` are all that the rows hold, in any order.
    """
    with first_token.only(model, kind), side_by_side.rows(model), used_words.only(model, ids, pad_id):
        yield
