"""Where words begin, by the marks of each kind of vocabulary; masks that stay the same in any batch."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from pipelines.core.errors import InputError
from pipelines.models.batch import IGNORE
from pipelines.pretraining import masking
from tests.support.letters import TOKENIZER, Tokenizer, sentences


def test_other_vocabularies_mark_where_a_word_begins() -> None:
    for mark in "Ġ▁":
        tokenizer = Tokenizer(["<s>", f"{mark}the", f"{mark}be", "ing", "##"], marks_spaces=True)
        assert masking.word_starts(tokenizer).tolist() == [0, 1, 1, 0, 0]


def test_whole_words_of_a_vocabulary_without_marks_are_refused() -> None:
    characters = Tokenizer(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"映画館"])
    with pytest.raises(
        InputError, match=r"^whole_word: this vocabulary does not mark words: .*; remove whole_word, or"
    ):
        masking.require_words(masking.Masking(whole_word=True), characters)
    masking.require_words(masking.Masking(), characters)
    masking.require_words(masking.Masking(whole_word=True), TOKENIZER)


@given(st.lists(st.integers(0, 5), min_size=4, max_size=4), st.booleans())
def test_a_sequence_has_the_same_masks_whatever_the_padding(padding: list[int], whole_word: bool) -> None:
    params = masking.Masking(select=0.5, masks=1, whole_word=whole_word)
    clean = sentences(rows=4, length=12)["input_ids"]
    alone = masking.mask_tokens({"input_ids": clean}, np.random.default_rng(0), params, TOKENIZER)
    for row, more in enumerate(padding):
        wide = {"input_ids": torch.nn.functional.pad(clean[row : row + 1], (0, more), value=TOKENIZER.pad_id)}
        padded = masking.mask_tokens(wide, np.random.default_rng(1), params, TOKENIZER)
        for name, tensor in alone.items():
            assert padded[name][0, :12].equal(tensor[row])
        assert (padded["input_ids"][0, 12:] == TOKENIZER.pad_id).all()
        assert (padded["labels"][0, 12:] == IGNORE).all()
