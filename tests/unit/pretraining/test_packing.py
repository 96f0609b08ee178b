"""Pretraining text in full sequences, which stay the same where their masks must."""

import numpy as np
import pytest

from pipelines.core.errors import InputError
from pipelines.pretraining.packing import PackedBatches
from pipelines.pretraining.segment_batches import SegmentBatches
from tests.support.fits import rows
from tests.support.letters import TOKENIZER, text


def test_packing_keeps_every_token_in_order_and_pads_nothing() -> None:
    data = rows()
    packed = PackedBatches(data, 16, 3, 1, 1, TOKENIZER)
    sequences = np.concatenate([packed[step]["input_ids"].numpy() for step in range(len(packed))])
    assert sequences.shape == ((len(data.ids) + len(data)) // 14, 16)
    assert (sequences[:, 0] == 2).all()
    assert (sequences[:, -1] == 3).all()
    with pytest.raises(InputError, match="do not fill one sequence of 512"):
        PackedBatches(data, 512, 3, 1, 1, TOKENIZER)


@pytest.mark.parametrize(
    ("of", "repack"), [(PackedBatches, True), (PackedBatches, False), (SegmentBatches, True), (SegmentBatches, False)]
)
def test_sequences_stay_the_same_where_their_masks_must(of: type, repack: bool) -> None:
    batches = of(text(50, 33, 80, 21), 12, 4, 2, 1, TOKENIZER, repack)
    half = len(batches) // 2
    first, second = (
        {tuple(row[row > 0]) for step in steps for row in batches[step]["input_ids"].numpy()}
        for steps in (range(half), range(half, 2 * half))
    )
    assert len(first) > 10
    assert (first == second) != repack
