"""What questions, tagged sentences and choices become as ids, and back."""

from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.core import schema
from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.text import parallel, tokenizer
from pipelines.text.encoding import choice, sequence, span, tagging
from tests import tiny

SPAN, WORDS = Task("t", "span"), Task("t", "tagging", ("PER", "LOC"))
CHARACTERS = WORDS.with_(units="characters")
CONTEXT = "映画の公開日が決定、監督が語る。試合は延長の末に決着した。新型スマートフォンの予約開始。"


@pytest.fixture(scope="module")
def japanese(tmp_path_factory: pytest.TempPathFactory) -> tokenizer.Tokenizer:
    return tokenizer.load(tiny.tokenizer(tmp_path_factory.mktemp("ja")))


@pytest.fixture(scope="module")
def english(tmp_path_factory: pytest.TempPathFactory) -> tokenizer.Tokenizer:
    return tokenizer.load(tiny.tokenizer(tmp_path_factory.mktemp("en"), japanese=False))


def batch(kind: str, *rows: dict[str, Any]) -> pa.RecordBatch:
    rows = tuple({"id": str(i), **row} for i, row in enumerate(rows))
    return pa.RecordBatch.from_pylist(list(rows), schema=schema.ROWS[kind])


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 200), st.integers(1, 50), st.integers(1, 60))
def test_windows_cover_every_token_and_overlap_as_asked(tokens: int, room: int, stride: int) -> None:
    found = list(span.windows(tokens, room, stride))
    assert found[0].first == 0
    assert found[-1].last == tokens
    assert {place for window in found for place in range(*window)} == set(range(tokens))
    assert all(0 <= window.last - window.first <= room for window in found)
    assert all(b.first - a.first == min(stride, room) for a, b in pairwise(found))


def test_answers_decode_from_every_window_they_lie_in(japanese: tokenizer.Tokenizer) -> None:
    answers = ["監督", "延長", "新型スマートフォン"]
    rows = [
        {"question": "何？", "context": CONTEXT, "answers": [{"text": a, "start": CONTEXT.index(a)}]} for a in answers
    ]
    found, cut = span.encode(batch("span", *rows), japanese, SPAN, 20, stride=5)
    assert cut == 0
    decoded: dict[str, set[str]] = {}
    for row in found.to_pylist():
        assert row["length"] == len(row["input_ids"]) == len(row["starts"]) <= 20
        assert row["input_ids"][row["first_length"] - 1] == row["input_ids"][-1] == japanese.sep_id
        if row["start_position"]:
            text = CONTEXT[row["starts"][row["start_position"]] : row["ends"][row["end_position"]]]
            decoded.setdefault(row["id"], set()).add(text)
    assert decoded == {str(i): {answer} for i, answer in enumerate(answers)}
    assert found.num_rows > 3 * len(rows)


def test_questions_without_an_answer_or_a_label_are_kept(japanese: tokenizer.Tokenizer) -> None:
    rows = [{"question": "何？", "context": CONTEXT, "answers": answers} for answers in ([], None)]
    rows.append({"question": "何？" * 50, "context": "", "answers": []})
    found, cut = span.encode(batch("span", *rows), japanese, SPAN, 40)
    assert cut == 1
    assert [(r["start_position"], r["end_position"]) for r in found.to_pylist()] == [(0, 0)] * found.num_rows
    assert {r["id"] for r in found.to_pylist()} == {"0", "1", "2"}


def round_trip(text: str, entities: list[dict], loaded: tokenizer.Tokenizer, task: Task, length: int) -> list[dict]:
    found, _ = tagging.encode(batch("tagging", {"text": text, "entities": entities}), loaded, task, length)
    names, rows = tagging.tags(task), found.to_pylist()
    inner = [(s, e, x) for row in rows for s, e, x in zip(row["starts"], row["ends"], row["labels"], strict=True) if e]
    token_tags = [names[x] if x != tagging.NONE else "O" for _, _, x in inner]
    assert max(row["length"] for row in rows) <= length
    return tagging.decode(text, task, [s for s, _, _ in inner], [e for _, e, _ in inner], token_tags)


WORD = st.text("abcdefgh.,'", min_size=1, max_size=12)


@settings(max_examples=200, deadline=None)
@given(st.lists(WORD, min_size=1, max_size=12), st.data())
def test_tags_of_words_decode_to_their_entities(
    english: tokenizer.Tokenizer, words: list[str], data: st.DataObject
) -> None:
    tags = data.draw(st.lists(st.sampled_from(["O", "PER", "LOC"]), min_size=len(words), max_size=len(words)))
    text, entities, at = " ".join(words), [], 0
    for word, tag in zip(words, tags, strict=True):
        if tag != "O":
            entities.append({"start": at, "end": at + len(word), "label": tag})
        at += len(word) + 1
    assert round_trip(text, entities, english, WORDS, data.draw(st.integers(8, 64))) == entities


def test_japanese_entities_on_token_borders_come_back_from_a_long_text(japanese: tokenizer.Tokenizer) -> None:
    text = CONTEXT * 20
    entities = [
        {"start": i * len(CONTEXT) + CONTEXT.index(name), "end": 0, "label": "PER"}
        for i in range(20)
        for name in ("監督", "延長")
    ]
    for entity in entities:
        entity["end"] = entity["start"] + 2
    assert round_trip(text, entities, japanese, CHARACTERS, 24) == entities
    _, split = tagging.encode(batch("tagging", {"text": text, "entities": entities}), japanese, CHARACTERS, 24)
    assert split == 1


def test_without_entities_known_no_token_carries_a_tag(english: tokenizer.Tokenizer) -> None:
    found, _ = tagging.encode(batch("tagging", {"text": "a b", "entities": None}), english, WORDS, 16)
    assert set(found.column("labels").values.to_pylist()) == {tagging.NONE}


def test_each_choice_is_a_pair_with_the_text(english: tokenizer.Tokenizer) -> None:
    task = Task("t", "choice", ("0", "1"))
    rows = [{"text": "ab", "choices": ["cd", "e f g h i j k"], "label": "1"}, {"text": "x", "choices": ["y", ""]}]
    found, cut = choice.encode(batch("choice", *rows), english, task, 8)
    pairs = [{"text": row["text"], "text_pair": c} for row in rows for c in row["choices"]]
    alone, _ = sequence.encode(batch("pair", *pairs), english, Task("t", "pair", ("0", "1")), 8)
    nested = found.to_pylist()
    assert [ids for row in nested for ids in row["input_ids"]] == alone.column("input_ids").to_pylist()
    assert [n for row in nested for n in row["first_lengths"]] == alone.column("first_length").to_pylist()
    assert [row["label"] for row in nested] == [1, None]
    assert [row["length"] for row in nested] == [sum(map(len, row["input_ids"])) for row in nested]
    assert cut == 1
    with pytest.raises(InputError, match="row 0: 3 choices; the task has 2"):
        choice.encode(batch("choice", {"text": "a", "choices": ["b", "c", "d"]}), english, task, 8)


def test_a_regression_of_one_text_has_no_second_segment(english: tokenizer.Tokenizer) -> None:
    rows = [{"text": "ab", "text_pair": "cd", "label": 2.5}, {"text": "ab", "text_pair": "", "label": None}]
    found, _ = sequence.encode(batch("regression", *rows), english, Task("t", "regression"), 16)
    pair, single = found.to_pylist()
    assert np.isclose(pair["label"], 2.5)
    assert single["label"] is None
    assert pair["input_ids"][: len(single["input_ids"])] == single["input_ids"]
    assert single["length"] == single["first_length"]


def test_any_number_of_processes_gives_the_same_ids(japanese: tokenizer.Tokenizer) -> None:
    task = Task("t", "single", ("a",))
    batches = [batch("single", *({"text": f"犬{i}が好き", "label": "a"} for i in range(n, n + 7))) for n in range(30)]
    one, three = (list(parallel.encoded(iter(batches), japanese, task, 16, processes)) for processes in (1, 3))
    assert len(one) == len(three) == 30
    assert all(a.equals(b) and x == y for (a, x), (b, y) in zip(one, three, strict=True))
