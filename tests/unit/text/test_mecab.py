"""Every token knows the characters it comes from, whatever normalizing did to them."""

import unicodedata
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from pipelines.core.opened_folder import OpenedFolder
from pipelines.text import chunks, mecab
from pipelines.text.tokenizers import mecab_wordpiece
from tests.support import odd_texts, tiny


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> mecab.MecabTokenizer:
    return mecab_wordpiece.load(OpenedFolder(tiny.tokenizer(tmp_path_factory.mktemp("tokenizer"))))


@settings(max_examples=400)
@given(text=odd_texts.ANY)
@example(text="ＡＢＣ　ｶﾞｷﾞ㌔グラム")
@example(text="##a ##")
def test_tokens_stand_in_order_inside_the_text_and_cover_what_they_claim(
    loaded: mecab.MecabTokenizer, text: str
) -> None:
    spans = loaded.encode_spans([text])
    plain = loaded.encode([text])
    assert spans.ids.values.tolist() == plain.values.tolist()
    before = (0, 0)
    for piece, start, end in zip(loaded.tokens(spans.ids.values), spans.starts, spans.ends, strict=True):
        assert 0 <= start < end <= len(text)
        assert start >= before[0]
        assert end >= before[1]
        before = (start, end)
        if piece != "[UNK]":
            assert piece.removeprefix("##") in unicodedata.normalize("NFKC", text[start:end])


def test_offsets_of_a_plain_sentence_are_its_words(loaded: mecab.MecabTokenizer) -> None:
    text = "　私は犬が好き。"
    spans = loaded.encode_spans([text, "", "犬"])
    assert spans.ids.lengths.tolist()[1:] == [0, 1]
    first = [text[s:e] for s, e in zip(spans.starts, spans.ends, strict=True)][: spans.ids.lengths[0]]
    assert "".join(first) == "私は犬が好き。"
    assert (spans.starts[0], spans.ends[-1]) == (1, 1)


def test_a_text_goes_on_after_u0000(loaded: mecab.MecabTokenizer) -> None:
    """MeCab takes a string of C, which ends there."""
    text = "私は\0犬が好き。"
    spans, spaced = loaded.encode_spans([text]), loaded.encode_spans([text.replace("\0", " ")])
    assert spans.ids.values.tolist() == loaded.encode([text]).values.tolist() == spaced.ids.values.tolist()
    assert (spans.starts.tolist(), spans.ends.tolist()) == (spaced.starts.tolist(), spaced.ends.tolist())
    assert spans.ends[-1] == len(text)
    words = loaded.words([text, text.replace("\0", " ")])
    assert words is not None
    assert words[0].tolist() == words[1].tolist()


def test_a_tokenizer_that_is_loaded_again_maps_no_second_dictionary(tmp_path: Path) -> None:
    """fugashi never unmaps one: a process would grow with each tokenizer that it opens."""
    folder = tiny.tokenizer(tmp_path)
    mecab_wordpiece.load(OpenedFolder(folder)).encode(["私は犬が好き。"])
    before = _mapped_dictionaries()
    assert before
    mecab_wordpiece.load(OpenedFolder(folder)).encode(["私は犬が好き。"])
    assert _mapped_dictionaries() == before


def test_a_vocabulary_is_learned_from_the_pieces_that_will_be_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MeCab's lattice takes kilobytes of memory a character."""
    lengths: list[int] = []
    words = mecab.spaced_words
    monkeypatch.setattr(mecab, "spaced_words", lambda tagger, text: lengths.append(len(text)) or words(tagger, text))
    text = "私は犬が好き。" * 6000
    mecab_wordpiece.train(lambda: iter([text]), tmp_path, 20, mecab_wordpiece.Params())
    assert lengths
    assert sum(lengths) % len(text) == 0, "all of it, at each reading"
    assert max(lengths) <= chunks.MAX_CHARACTERS


def _mapped_dictionaries() -> int:
    return Path("/proc/self/maps").read_text().count("/sys.dic")
