"""contrast against its definition: what makes a pair, what is compared, what is no wrong answer."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForMaskedLM

from pipelines.core import params
from pipelines.core.errors import UsageError
from pipelines.entries.pretrain import Pretrain
from pipelines.models.batch import IGNORE
from pipelines.objectives import contrast
from pipelines.pretraining import segments
from tests.support.letters import TOKENIZER, model

FIRST = [np.array([5, 6, 7, 8, 9]), np.array([10, 11]), np.array([12])]
SECOND = [np.array([15]), np.array([16, 17, 18, 19]), np.array([20, 21, 22])]
CLEAN = contrast.Params(select=0)


def batch(options: contrast.Params = CLEAN, documents: tuple[int, ...] = (0, 1, 2)) -> dict[str, torch.Tensor]:
    joined = segments.join(FIRST, SECOND, TOKENIZER) | {"document": torch.tensor(documents)}
    return contrast.corrupt(joined, np.random.default_rng(1), options, TOKENIZER)


def test_a_pair_is_what_stands_on_both_sides_of_the_cut() -> None:
    pairs = batch()
    rows = zip(pairs["input_ids"], pairs["attention_mask"], strict=True)
    shown = [[ids[mask.bool()].tolist() for ids, mask in zip(*pair, strict=True)] for pair in rows]
    assert shown == [  # none longer than three tokens, half of the longest row's six
        [[2, 7, 8, 9, 3], [2, 15, 3]],
        [[2, 10, 11, 3], [2, 16, 17, 18, 3]],
        [[2, 12, 3], [2, 20, 21, 22, 3]],
    ]
    assert (pairs["labels"] == IGNORE).all()
    masked = batch(contrast.Params(select=1.0, mask=1.0, random=0.0))
    inside = masked["labels"] != IGNORE
    assert (masked["input_ids"][inside] == TOKENIZER.mask_id).all()
    assert inside.sum() == sum(len(part) - 2 for pair in shown for part in pair)


def test_a_texts_vector_is_the_mean_of_its_tokens_and_the_others_segments_are_wrong_answers() -> None:
    encoder, pairs_of_batch = model("modernbert", AutoModelForMaskedLM), batch()
    (words, pairs) = contrast.predict(encoder, pairs_of_batch)
    assert (words.name, len(words.labels)) == ("mlm", 0)
    assert pairs.labels.tolist() == [0, 1, 2]

    def vector(ids: list[int]) -> torch.Tensor:
        states = encoder.model(input_ids=torch.tensor([ids])).last_hidden_state[0]
        return torch.nn.functional.normalize(states.mean(dim=0), dim=0)

    cosine = vector([2, 10, 11, 3]) @ vector([2, 15, 3])
    assert torch.allclose(pairs.logits[1, 0], cosine / 0.05, atol=1e-4)


def test_another_segment_of_the_same_text_is_no_wrong_answer() -> None:
    encoder = model("modernbert", AutoModelForMaskedLM)
    apart = contrast.predict(encoder, batch())[1].logits
    together = contrast.predict(encoder, batch(documents=(0, 7, 7)))[1].logits
    assert (together[1, 2], together[2, 1]) == (-1e4, -1e4)
    compared = torch.ones(3, 3, dtype=torch.bool)
    compared[1, 2] = compared[2, 1] = False
    assert torch.equal(together[compared], apart[compared])


def test_an_equal_second_text_of_another_row_is_no_wrong_answer() -> None:
    encoder = model("modernbert", AutoModelForMaskedLM)
    joined = segments.join(FIRST, [SECOND[1], SECOND[0], SECOND[1]], TOKENIZER) | {"document": torch.arange(3)}
    options = contrast.Params(select=1.0, mask=1.0, random=0.0)  # masked texts are all alike
    pairs = contrast.predict(encoder, contrast.corrupt(joined, np.random.default_rng(1), options, TOKENIZER))[1]
    masked = torch.zeros(3, 3, dtype=torch.bool)
    masked[0, 2] = masked[2, 0] = True
    assert torch.equal(pairs.logits == -1e4, masked)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (
            {"accumulate": 2},
            r"pretrain\.x\.accumulate: 2: contrast compares the rows of a batch with one another, so a",
        ),
        ({"batch_size": 1}, r"pretrain\.x\.batch_size: 1: input should be greater than or equal to 2"),
    ],
)
def test_a_row_without_others_to_compare_with_is_refused(more: dict, message: str) -> None:
    entry = Pretrain.model_validate({"data": "d", "start": "s", "objective": "contrast", "masks": 2})
    assert params.options(entry, contrast.Params, "pretrain.x", **entry.shared()).masks == 2
    entry = entry.model_copy(update=more)
    with pytest.raises(UsageError, match=message):
        params.options(entry, contrast.Params, "pretrain.x", **entry.shared())
