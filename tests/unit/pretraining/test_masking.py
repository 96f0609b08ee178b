"""Where words begin, by the marks of each kind of vocabulary."""

from pipelines.pretraining import masking
from tests.support.letters import Tokenizer


def test_other_vocabularies_mark_where_a_word_begins() -> None:
    for mark in "Ġ▁":
        assert masking.word_starts(Tokenizer(["<s>", f"{mark}the", f"{mark}be", "ing"])).tolist() == [0, 1, 1, 0]
