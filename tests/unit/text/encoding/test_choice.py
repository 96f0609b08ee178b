"""Each choice is a pair."""

import pytest

from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.text import tokenizer
from pipelines.text.encoding import choice, sequence
from tests.support.kinds import batch


def test_each_choice_is_a_pair_with_the_text(english: tokenizer.Tokenizer) -> None:
    task = Task("t", "choice", ("0", "1"))
    rows = [{"text": "ab", "choices": ["cd", "e f g h i j k"], "label": "1"}, {"text": "x", "choices": ["y", ""]}]
    encoded, cut = choice.encode(batch("choice", *rows), english, task, 8)
    pairs = [{"text": row["text"], "text_pair": c} for row in rows for c in row["choices"]]
    alone, _ = sequence.encode(batch("pair", *pairs), english, Task("t", "pair", ("0", "1")), 8)
    nested = encoded.to_pylist()
    assert [ids for row in nested for ids in row["input_ids"]] == alone.column("input_ids").to_pylist()
    assert [n for row in nested for n in row["first_lengths"]] == alone.column("first_length").to_pylist()
    assert [row["label"] for row in nested] == [1, None]
    assert [row["length"] for row in nested] == [sum(map(len, row["input_ids"])) for row in nested]
    assert cut.sum() == 1
    with pytest.raises(InputError, match="row 0: 3 choices; the task has 2"):
        choice.encode(batch("choice", {"text": "a", "choices": ["b", "c", "d"]}), english, task, 8)
