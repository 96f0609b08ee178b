"""One text or two as one sequence, cut as transformers cuts them."""

import warnings
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    BertTokenizerFast,
    RobertaTokenizerFast,
)

from pipelines.core.task import Task
from pipelines.text import encoding, tokenizer
from pipelines.text.encoding import sequence
from pipelines.text.tokenizers import bpe, wordpiece
from tests.support import odd_texts, tiny
from tests.support.kinds import batch

PAIR = Task("t", "pair", ("a", "b"))


@settings(max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1), st.integers(1, 24))
def test_pairs_are_cut_longest_first_a_token_at_a_time(lengths: list[tuple[int, int]], room: int) -> None:
    first, second = np.array(lengths).T
    lengths_kept = sequence.longest_first(first, second, room)
    for i, (a, b) in enumerate(lengths):
        while a + b > room:
            a, b = (a - 1, b) if a > b else (a, b - 1)
        assert (lengths_kept[0][i], lengths_kept[1][i]) == (a, b)


@pytest.mark.parametrize("plugin", [wordpiece, bpe], ids=lambda p: p.NAME)
def test_a_pair_is_as_transformers_encodes_it(plugin: ModuleType, tmp_path: Path) -> None:
    rows = [("ab cd", "ef"), ("", "x"), ("a b c d e f g h", "a b c d e"), ("a b", "c d e f g h i j k")]
    plugin.train(lambda: (text for row in rows for text in row), tmp_path, 300, plugin.Params())
    reference = (BertTokenizerFast if plugin is wordpiece else RobertaTokenizerFast).from_pretrained(tmp_path)
    pairs = batch("pair", *({"text": a, "text_pair": b} for a, b in rows))
    encoded, cut = sequence.encode(pairs, tokenizer.load(tmp_path), PAIR, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = [reference(a, b, truncation="longest_first", max_length=10) for a, b in rows]
    assert encoded.column("input_ids").to_pylist() == [w["input_ids"] for w in expected]
    if plugin is wordpiece:
        assert encoded.column("first_length").to_pylist() == [w["token_type_ids"].count(0) for w in expected]
    assert cut.tolist() == [len(reference(a, b)["input_ids"]) > 10 for a, b in rows]
    assert cut.any()


def test_long_empty_and_odd_texts_are_encoded(tmp_path: Path) -> None:
    loaded = tokenizer.load(tiny.tokenizer(tmp_path))
    rows = batch("single", *({"text": text, "label": None} for text in odd_texts.SOME))
    encoded, _ = encoding.for_kind("single").encode(rows, loaded, Task("t", "single", ("a",)), 8)
    assert max(encoded.column("length").to_pylist()) <= 8
    assert encoded.column("input_ids").to_pylist()[0] == [loaded.cls_id, loaded.sep_id]


def test_a_regression_of_one_text_has_no_second_segment(english: tokenizer.Tokenizer) -> None:
    rows = [{"text": "ab", "text_pair": "cd", "label": 2.5}, {"text": "ab", "text_pair": "", "label": None}]
    encoded, _ = sequence.encode(batch("regression", *rows), english, Task("t", "regression"), 16)
    pair, single = encoded.to_pylist()
    assert np.isclose(pair["label"], 2.5)
    assert single["label"] is None
    assert pair["input_ids"][: len(single["input_ids"])] == single["input_ids"]
    assert single["length"] == single["first_length"]
