"""Two segments as one sequence, and apart again."""

import numpy as np

from pipelines.pretraining import segments
from tests.support.letters import TOKENIZER


def test_segments_are_joined_as_bert_reads_them_and_taken_apart_again() -> None:
    batch = segments.join([np.array([7, 8]), np.array([9])], [np.array([10]), np.array([11])], TOKENIZER)
    assert batch["input_ids"].tolist() == [[2, 7, 8, 3, 10, 3], [2, 9, 3, 11, 3, 0]]
    assert batch["token_type_ids"].tolist() == [[0, 0, 0, 0, 1, 1], [0, 0, 0, 1, 1, 0]]
    assert batch["attention_mask"].tolist() == [[1] * 6, [1] * 5 + [0]]
    first, second = segments.split(batch)
    assert [part.tolist() for part in (*first, *second)] == [[7, 8], [9], [10], [11]]
