"""Batches by number: what they hold, and in which order."""

from itertools import chain

import numpy as np

from pipelines.training.batches import Encoded, RowBatches, collate
from tests.support.fits import rows


def test_a_batch_is_what_a_plain_loop_makes() -> None:
    data, chosen = rows(), np.array([5, 0, 9])
    batch = collate(data, chosen, pad_id=0)
    longest = min(-(-max(data.lengths[chosen]) // 8) * 8, max(data.lengths))  # shapes are shared by many batches
    for line, row in enumerate(chosen):
        ids = data.ids[data.offsets[row] : data.offsets[row + 1]].tolist()
        assert batch["input_ids"][line].tolist() == ids + [0] * (longest - len(ids))
        assert batch["attention_mask"][line].tolist() == [1] * len(ids) + [0] * (longest - len(ids))
    assert batch["labels"].tolist() == data.labels[chosen].tolist()


def test_an_epoch_shows_every_row_once_and_the_next_another_order() -> None:
    data = rows()
    batches = RowBatches(data, 5, 2, seed=1, pad_id=0)
    labels = [batches[step]["labels"].tolist() for step in range(len(batches))]
    assert len(labels) == 10
    flat = [list(chain(*labels[:5])), list(chain(*labels[5:]))]
    assert sorted(flat[0]) == sorted(flat[1]) == sorted(data.labels.tolist())
    assert flat[0] != flat[1]
    assert batches[7]["input_ids"].equal(RowBatches(data, 5, 2, seed=1, pad_id=0)[7]["input_ids"])


def test_a_sample_keeps_rows_whole() -> None:
    data = rows(count=40)
    few = data.sample(7, seed=3)
    assert len(few) == 7
    assert data.sample(40, seed=3) is data

    def texts(part: Encoded) -> dict[tuple[int, ...], int]:
        bounds = zip(part.offsets, part.offsets[1:], strict=False)
        return {tuple(part.ids[a:b]): int(label) for (a, b), label in zip(bounds, part.labels, strict=True)}

    assert texts(few).items() <= texts(data).items()
