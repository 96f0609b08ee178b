"""Entities become tags of tokens, and come back from them."""

from hypothesis import given, settings
from hypothesis import strategies as st

from pipelines.core.task import Task
from pipelines.text import tokenizer
from pipelines.text.encoding import tagging
from tests.support.kinds import batch

WORDS = Task("t", "tagging", ("PER", "LOC"))
CHARACTERS = WORDS.with_(units="characters")
CONTEXT = "映画の公開日が決定、監督が語る。試合は延長の末に決着した。新型スマートフォンの予約開始。"


def round_trip(text: str, entities: list[dict], loaded: tokenizer.Tokenizer, task: Task, length: int) -> list[dict]:
    encoded, _ = tagging.encode(batch("tagging", {"text": text, "entities": entities}), loaded, task, length)
    names, rows = tagging.tags(task), encoded.to_pylist()
    inner = [(s, e, x) for row in rows for s, e, x in zip(row["starts"], row["ends"], row["labels"], strict=True) if e]
    token_tags = [names[x] if x != tagging.NONE else "O" for _, _, x in inner]
    assert max(row["length"] for row in rows) <= length
    return tagging.decode(text, task, [s for s, _, _ in inner], [e for _, e, _ in inner], token_tags).entities


WORD = st.text("abcdefgh.,'", min_size=1, max_size=12)


@settings(max_examples=200)
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
    assert split.tolist() == [True]


def test_without_entities_known_no_token_carries_a_tag(english: tokenizer.Tokenizer) -> None:
    encoded, _ = tagging.encode(batch("tagging", {"text": "a b", "entities": None}), english, WORDS, 16)
    assert set(encoded.column("labels").values.to_pylist()) == {tagging.NONE}
