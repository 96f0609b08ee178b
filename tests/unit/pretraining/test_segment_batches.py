"""Pretraining text in pairs of segments: neighbours in one document."""

import pytest

from pipelines.core.errors import InputError
from pipelines.pretraining import segments
from pipelines.pretraining.segment_batches import SegmentBatches
from tests.support.letters import TOKENIZER, text


def test_two_segments_are_neighbours_in_one_document_and_every_token_is_read_once() -> None:
    batches = SegmentBatches(text(40, 1, 7, 0, 17), 20, 2, 2, 1, TOKENIZER)
    tokens_read, middles = [], set()
    for step in range(len(batches) // 2):
        batch = batches[step]
        for a, b, document in zip(*segments.split(batch), batch["document"].tolist(), strict=True):
            assert len(a)
            assert len(b)
            whole = [*a.tolist(), *b.tolist()]
            assert whole == list(range(whole[0], whole[0] + len(whole)))
            assert len(whole) <= 17
            assert whole[0] // 1000 == document + 1
            tokens_read += whole
            middles.add(len(a))
    tokens_kept = [
        *range(1000, 1040),
        *range(3000, 3007),
        *range(5000, 5017),
    ]  # a document of one token has no two segments
    assert sorted(tokens_read) == tokens_kept
    assert len(middles) > 1
    assert batches.padding == pytest.approx(1 - (40 + 7 + 17 + 5 * 3) / (5 * 20))
    with pytest.raises(InputError, match="no document has two tokens"):
        SegmentBatches(text(1, 0), 20, 2, 1, 1, TOKENIZER)
