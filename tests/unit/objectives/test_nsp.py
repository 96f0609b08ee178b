"""Next sentence prediction against its definition."""

import numpy as np
import pytest
import torch

from pipelines.objectives import nsp
from pipelines.pretraining import segments
from tests.support.letters import TOKENIZER, documents


def test_half_of_the_next_segments_are_of_another_document() -> None:
    clean = documents()
    params = nsp.Params(select=0.0)
    batch = nsp.corrupt(clean, np.random.default_rng(1), params, TOKENIZER)
    first, second = segments.split(batch)
    of_document = clean["document"].numpy()
    order = batch["order"].numpy()
    assert order.mean() == pytest.approx(0.5, abs=0.06)
    assert len(first) == 400
    for row in range(400):
        assert set(first[row].tolist()) == {5 + 2 * of_document[row]}
        (letter,) = set(second[row].tolist())
        assert (letter == 6 + 2 * of_document[row]) == (order[row] == nsp.NEXT)
    alone = {**clean, "document": torch.zeros(400, dtype=torch.int64)}
    assert not nsp.corrupt(alone, np.random.default_rng(1), params, TOKENIZER)["order"].any()
