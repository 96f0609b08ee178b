"""Sentence order prediction against its definition."""

import numpy as np
import pytest

from pipelines.objectives import sop
from pipelines.pretraining import segments
from tests.support.letters import TOKENIZER, documents


def test_half_of_the_segments_change_places() -> None:
    clean = documents()
    batch = sop.corrupt(clean, np.random.default_rng(1), sop.Params(select=0.0), TOKENIZER)
    order = batch["order"].numpy()
    assert order.mean() == pytest.approx(0.5, abs=0.06)
    before, after = segments.split(clean), segments.split(batch)
    for row in range(400):
        a, b = (1, 0) if order[row] == sop.SWAPPED else (0, 1)
        assert after[0][row].tolist() == before[a][row].tolist()
        assert after[1][row].tolist() == before[b][row].tolist()
