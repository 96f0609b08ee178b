"""Every token knows the characters it comes from, whatever normalizing did to them."""

import unicodedata
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pipelines.text import alignment, mecab, tokenizer
from pipelines.text.tokenizers import mecab_wordpiece
from tests import tiny

ODD = st.sampled_from(
    "がカ\u3099ｶﾞﾊﾟ㌔㍻①ﬁé\u0301\u0327\u0334q ａＢ　\u200b\u1100\u1161\u11a8ﷺ😀\U0001f468\u200d犬好き。abc\n\t"
)
TEXTS = st.text(st.one_of(ODD, st.characters(exclude_categories=["Cs"])), max_size=40)


@settings(max_examples=400, deadline=None)
@given(TEXTS)
@example("c\u0334\u0327")
@example("ｶ\uff9e\uff9e")
@example("\u0344e\u0301")
def test_normal_forms_are_aligned_with_what_they_come_from(text: str) -> None:
    normal, starts, ends = alignment.nfkc(text)
    assert normal == unicodedata.normalize("NFKC", text)
    assert len(starts) == len(ends) == len(normal)
    for i in range(len(normal)):
        assert 0 <= starts[i] < ends[i] <= len(text)
        assert i == 0 or (starts[i - 1] <= starts[i] and ends[i - 1] <= ends[i])
    for start, end in {*zip(starts.tolist(), ends.tolist(), strict=True)}:
        form = "".join(normal[i] for i in range(len(normal)) if starts[i] == start)
        assert form == unicodedata.normalize("NFKC", text[start:end])


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> mecab.MecabTokenizer:
    return mecab_wordpiece.load(tiny.tokenizer(tmp_path_factory.mktemp("tokenizer")))


@settings(max_examples=400, deadline=None)
@given(text=TEXTS)
@example(text="ＡＢＣ　ｶﾞｷﾞ㌔グラム")
@example(text="##a ##")
def test_tokens_stand_in_order_inside_the_text_and_cover_what_they_claim(
    loaded: mecab.MecabTokenizer, text: str
) -> None:
    found = loaded.encode_spans([text])
    plain = loaded.encode([text])
    assert found.ids.values.tolist() == plain.values.tolist()
    before = (0, 0)
    for piece, start, end in zip(loaded.tokens(found.ids.values), found.starts, found.ends, strict=True):
        assert 0 <= start < end <= len(text)
        assert start >= before[0]
        assert end >= before[1]
        before = (start, end)
        if piece != "[UNK]":
            assert piece.removeprefix("##") in unicodedata.normalize("NFKC", text[start:end])


def test_offsets_of_a_plain_sentence_are_its_words(loaded: mecab.MecabTokenizer) -> None:
    text = "　私は犬が好き。"
    found = loaded.encode_spans([text, "", "犬"])
    assert found.ids.lengths.tolist()[1:] == [0, 1]
    first = [text[s:e] for s, e in zip(found.starts, found.ends, strict=True)][: found.ids.lengths[0]]
    assert "".join(first) == "私は犬が好き。"
    assert (found.starts[0], found.ends[-1]) == (1, 1)


def test_english_offsets_are_the_librarys_own(tmp_path: Path) -> None:
    loaded = tokenizer.load(tiny.tokenizer(tmp_path, japanese=False))
    text = "Ünï  café, OK?"
    found = loaded.encode_spans([text, "a"])
    parts = [text[s:e] for s, e in zip(found.starts, found.ends, strict=True)][: found.ids.lengths[0]]
    assert "".join(parts) == text.replace(" ", "")
    assert np.array_equal(found.ids.values, loaded.encode([text, "a"]).values)
