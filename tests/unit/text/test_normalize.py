"""Our NFKC is Python's own, whatever stands beside what."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.text import normalize

MARKS = "゙゚ﾞﾟ̧́ ᅡ각가ᄀᆨ่ிা"  # they join, or change places
BEFORE = ("か", "e", "가", "ᄀ", "1")
EVERY = [chr(code) for code in range(0x110000) if not 0xD800 <= code < 0xE000]
CHANGED = [letter for letter in EVERY if unicodedata.normalize("NFKC", letter) != letter]


PLAIN = [letter for letter in EVERY if letter < chr(normalize.FIRST_ASTRAL)]  # the others are unicodedata's own


@pytest.mark.parametrize(
    ("before", "letters"),
    [
        ("", EVERY),
        *((before, PLAIN) for before in BEFORE),
        *(pytest.param(before, EVERY, marks=pytest.mark.soak) for before in BEFORE),
    ],
    ids=lambda param: param if isinstance(param, str) else f"{len(param)} letters",
)
def test_every_character_alone_and_behind_a_letter(before: str, letters: list[str]) -> None:
    wrong = [c for c in letters if normalize.nfkc(before + c) != unicodedata.normalize("NFKC", before + c)]
    assert not wrong


def test_every_character_before_what_joins() -> None:
    for after in MARKS:
        wrong = [c for c in CHANGED if normalize.nfkc(c + after) != unicodedata.normalize("NFKC", c + after)]
        assert not wrong, after


@settings(max_examples=300)
@given(st.text(st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(MARKS), st.sampled_from(CHANGED))))
def test_any_text_has_the_normal_form_of_unicodedata(text: str) -> None:
    assert normalize.nfkc(text) == unicodedata.normalize("NFKC", text)


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("ＢＥＲＴ（ベルト）！", "BERT(ベルト)!"),
        ("ｶﾞｷﾞ", "ガギ"),
        ("か゛", "か ゙"),
        ("㌔ⅳ①", "キロiv1"),
        ("plain", "plain"),
        ("", ""),
    ],
)
def test_a_few_normal_forms_agree_with_hand_work(text: str, form: str) -> None:
    assert normalize.nfkc(text) == form
