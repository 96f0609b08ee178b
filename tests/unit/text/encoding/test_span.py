"""Questions become windows of their contexts, and answers come back from them."""

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.core.task import Task
from pipelines.text import tokenizer
from pipelines.text.encoding import span
from tests.support.kinds import batch

SPAN = Task("t", "span")
CONTEXT = "映画の公開日が決定、監督が語る。試合は延長の末に決着した。新型スマートフォンの予約開始。"


@settings(max_examples=200)
@given(st.integers(0, 200), st.integers(1, 50), st.integers(1, 60))
def test_windows_cover_every_token_and_overlap_as_asked(tokens: int, room: int, stride: int) -> None:
    windows = list(span.windows(tokens, room, stride))
    assert windows[0].first == 0
    assert windows[-1].last == tokens
    assert {place for window in windows for place in range(*window)} == set(range(tokens))
    assert all(0 <= window.last - window.first <= room for window in windows)
    assert all(b.first - a.first == min(stride, room) for a, b in pairwise(windows))


def test_answers_decode_from_every_window_they_lie_in(japanese: tokenizer.Tokenizer) -> None:
    answers = ["監督", "延長", "新型スマートフォン"]
    rows = [
        {"question": "何？", "context": CONTEXT, "answers": [{"text": a, "start": CONTEXT.index(a)}]} for a in answers
    ]
    encoded, cut = span.encode(batch("span", *rows), japanese, SPAN, 20, stride=5)
    assert not cut.any()
    decoded: dict[str, set[str]] = {}
    for row in encoded.to_pylist():
        assert row["length"] == len(row["input_ids"]) == len(row["starts"]) <= 20
        assert row["input_ids"][row["first_length"] - 1] == row["input_ids"][-1] == japanese.sep_id
        if row["start_position"]:
            text = CONTEXT[row["starts"][row["start_position"]] : row["ends"][row["end_position"]]]
            decoded.setdefault(row["id"], set()).add(text)
    assert decoded == {str(i): {answer} for i, answer in enumerate(answers)}
    assert encoded.num_rows > 3 * len(rows)


def test_questions_without_an_answer_or_a_label_are_kept(japanese: tokenizer.Tokenizer) -> None:
    rows = [{"question": "何？", "context": CONTEXT, "answers": answers} for answers in ([], None)]
    rows.append({"question": "何？" * 50, "context": "", "answers": []})
    encoded, cut = span.encode(batch("span", *rows), japanese, SPAN, 40)
    assert cut.sum() == 1
    assert [(r["start_position"], r["end_position"]) for r in encoded.to_pylist()] == [(0, 0)] * encoded.num_rows
    assert {r["id"] for r in encoded.to_pylist()} == {"0", "1", "2"}


def test_a_long_question_is_cut_where_it_is_said(japanese: tokenizer.Tokenizer) -> None:
    row = {"question": "映画の公開日が決定、監督が語る。" * 3, "context": CONTEXT, "answers": []}
    lengths = []
    for most in (4, 9):
        encoded, cut = span.encode(batch("span", row), japanese, SPAN, 32, max_question=most)
        assert cut.sum() == 1
        lengths.append(encoded.column("first_length")[0].as_py())
    assert lengths == [4 + 2, 9 + 2]
