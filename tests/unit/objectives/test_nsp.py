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
        (document,) = {(letter - 5) // 2 for letter in second[row].tolist()}
        assert (document == of_document[row]) == (order[row] == nsp.NEXT)
    alone = {**clean, "document": torch.zeros(400, dtype=torch.int64)}
    assert not nsp.corrupt(alone, np.random.default_rng(1), params, TOKENIZER)["order"].any()


def test_lengths_do_not_show_the_order() -> None:
    clean = documents()
    batch = nsp.corrupt(clean, np.random.default_rng(1), nsp.Params(select=0.0), TOKENIZER)
    assert (batch["order"] == nsp.RANDOM).any()
    for name in ("attention_mask", "token_type_ids"):
        assert torch.equal(batch[name], clean[name])


def test_a_segment_for_which_no_other_document_is_long_enough_gets_the_longest_end() -> None:
    rows = segments.join([np.array([5]), np.array([7, 7])], [np.array([6] * 8), np.array([8, 8])], TOKENIZER)
    batch = nsp.corrupt(
        rows | {"document": torch.tensor([0, 1])},
        np.random.default_rng(1),
        nsp.Params(select=0.0, random_next=1.0),
        TOKENIZER,
    )
    assert [b.tolist() for b in segments.split(batch)[1]] == [[7, 8, 8], [6, 6]]
    assert batch["order"].tolist() == [nsp.RANDOM] * 2
