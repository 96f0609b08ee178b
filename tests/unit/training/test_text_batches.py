"""Text as objectives read it: segments of one document, sequences that stay the same where their masks must."""

import numpy as np
import pytest

from pipelines.core.errors import InputError
from pipelines.core.ragged import offsets
from pipelines.models import segments
from pipelines.training.batches import Encoded
from pipelines.training.packing import PackedBatches
from pipelines.training.segments import SegmentBatches


class Special:
    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)


def text(*lengths: int) -> Encoded:
    """Documents whose tokens tell their place: 1,000 times the document's number, and the token's own."""
    ids = np.concatenate([1000 * (d + 1) + np.arange(n) for d, n in enumerate(lengths)])
    return Encoded(ids.astype(np.uint16), offsets(np.array(lengths)))


def test_two_segments_are_neighbours_in_one_document_and_every_token_is_read_once() -> None:
    batches = SegmentBatches(text(40, 1, 7, 0, 17), 20, 2, 2, 1, Special())
    seen, middles = [], set()
    for step in range(len(batches) // 2):
        batch = batches[step]
        for a, b, document in zip(*segments.split(batch), batch["document"].tolist(), strict=True):
            assert len(a)
            assert len(b)
            whole = [*a.tolist(), *b.tolist()]
            assert whole == list(range(whole[0], whole[0] + len(whole)))
            assert len(whole) <= 17
            assert whole[0] // 1000 == document + 1
            seen += whole
            middles.add(len(a))
    kept = [*range(1000, 1040), *range(3000, 3007), *range(5000, 5017)]  # a document of one token has no two segments
    assert sorted(seen) == kept
    assert len(middles) > 1
    assert batches.padding == pytest.approx(1 - (40 + 7 + 17 + 5 * 3) / (5 * 20))
    with pytest.raises(InputError, match="no document has two tokens"):
        SegmentBatches(text(1, 0), 20, 2, 1, 1, Special())


@pytest.mark.parametrize(
    ("of", "repack"), [(PackedBatches, True), (PackedBatches, False), (SegmentBatches, True), (SegmentBatches, False)]
)
def test_sequences_stay_the_same_where_their_masks_must(of: type, repack: bool) -> None:
    batches = of(text(50, 33, 80, 21), 12, 4, 2, 1, Special(), repack)
    half = len(batches) // 2
    first, second = (
        {tuple(row[row > 0]) for step in steps for row in batches[step]["input_ids"].numpy()}
        for steps in (range(half), range(half, 2 * half))
    )
    assert len(first) > 10
    assert (first == second) != repack
