"""Every letter of a normal form knows the characters that it comes from."""

import unicodedata

from hypothesis import example, given, settings

from pipelines.text import alignment
from tests.support import odd_texts


@settings(max_examples=400)
@given(odd_texts.ANY)
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
