"""Texts of any length, names of special tokens in a text, and many threads at one tokenizer."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoTokenizer

from pipelines.core import plugins
from pipelines.text import chunks, tokenizer
from tests.support import odd_texts, tiny
from tests.support.places import ROOT

SENTENCES = [
    "私は犬が好き。",
    "映画の公開日が決定、監督が語る。",
    "a  plain\ntext, don't cut it ",
    "試合は延長の末に決着した",
]
PLUGINS = ("wordpiece", "mecab_wordpiece", "mecab_character", "bpe", "unigram")


@pytest.fixture(scope="module", params=PLUGINS)
def tokenizer_folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a tokenizer of each kind."""
    folder, plugin = tmp_path_factory.mktemp("any"), plugins.load("pipelines.text.tokenizers", request.param)
    plugin.train(lambda: iter(SENTENCES * 20), folder, 400 if request.param == "bpe" else 90, plugin.Params())
    return folder


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chunks, "MAX_CHARACTERS", 24)


@settings(max_examples=300)
@given(text=odd_texts.ANY, most=st.integers(2, 9))
def test_pieces_are_the_text_and_none_is_too_long(text: str, most: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chunks, "MAX_CHARACTERS", most)
        pieces = list(chunks._pieces(text, None, {}))
    assert "".join(piece.text for piece in pieces) == text
    assert all(0 < len(piece.text) <= most for piece in pieces)
    assert all(text.startswith(piece.text, piece.start) for piece in pieces)


def test_a_text_that_is_cut_before_words_has_the_ids_of_the_whole(tokenizer_folder: Path, short: None) -> None:
    loaded = tokenizer.load(tokenizer_folder)
    words = ["some words  of a text\n\nthat is,", "cut in many places", "", "another one of some length, too"] * 3
    whole = loaded._encode_spans(words)
    spans = loaded.encode_spans(words)
    assert spans.ids.offsets.tolist() == whole.ids.offsets.tolist()
    for mine, theirs in zip((spans.ids.values, *spans[1:]), (whole.ids.values, *whole[1:]), strict=True):
        assert np.array_equal(mine, theirs)
    assert np.array_equal(loaded.encode(words).values, whole.ids.values)


def test_a_japanese_text_without_spaces_is_cut_after_sentences(tokenizer_folder: Path, short: None) -> None:
    loaded, text = tokenizer.load(tokenizer_folder), "".join(SENTENCES[:2] * 5)
    spans = loaded.encode_spans([text, "犬"])
    assert spans.ids.values.tolist() == loaded.encode([text, "犬"]).values.tolist()
    starts, ends = (places[: spans.ids.lengths[0]] for places in spans[1:])
    assert (np.diff(starts) >= 0).all()
    assert (starts < ends).all()
    assert ends[-1] == len(text)


def test_names_of_special_tokens_are_text_unless_it_is_said(tokenizer_folder: Path) -> None:
    plain, special = tokenizer.load(tokenizer_folder), tokenizer.load(tokenizer_folder, "special")
    special_ids = (plain.pad_id, plain.unk_id, plain.cls_id, plain.sep_id, plain.mask_id)
    separator = plain.tokens([plain.sep_id])[0]
    text = f"犬 {separator} a text"
    assert not {*special_ids} - {plain.unk_id} & {*plain.encode([text]).values.tolist()}
    spans = special.encode_spans([text])
    (place,) = np.flatnonzero(spans.ids.values == plain.sep_id)
    assert text[spans.starts[place] : spans.ends[place]] == separator
    assert spans.ids.values.tolist() == [*plain.encode(["犬 "]).values, plain.sep_id, *plain.encode([" a text"]).values]


@pytest.mark.parametrize("japanese", [True, False])
def test_special_is_what_transformers_reads(japanese: bool, tmp_path: Path) -> None:
    folder = tiny.tokenizer(tmp_path, japanese)
    theirs = AutoTokenizer.from_pretrained(folder)
    for text in ("映画 [SEP] 監督が語る", "[CLS]犬[SEP][MASK] x", "a [UNK] b [PAD]", "[sep]"):
        expected = theirs(text, add_special_tokens=False)["input_ids"]
        assert tokenizer.load(folder, "special").encode([text]).values.tolist() == expected


def switching() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


often = pytest.fixture(switching)


def test_threads_share_one_tokenizer(tokenizer_folder: Path, often: None) -> None:
    texts = [f"{sentence}{number}" for number in range(60) for sentence in SENTENCES]
    expected = [tokenizer.load(tokenizer_folder).encode([text]).values.tolist() for text in texts]
    shared, wrong = tokenizer.load(tokenizer_folder), []

    def ask(order: np.ndarray) -> None:
        for i in order:
            spans = shared.encode_spans([texts[i]]).ids.values.tolist()
            if not shared.encode([texts[i]]).values.tolist() == spans == expected[i]:
                wrong.append(texts[i])

    orders = [np.random.default_rng(seed).permutation(len(texts)) for seed in range(8)]
    threads = [threading.Thread(target=ask, args=[order]) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


LONG = """
import sys
from pathlib import Path
from pipelines.text import tokenizer
loaded = tokenizer.load(Path(sys.argv[1]))
millions = int(sys.argv[2])
for text in ("映画の公開日が決定、監督が語る。", "ア", "か\\u3099", "ぁ"):
    text = text * (millions * 1_000_000 // len(text))
    print(len(loaded.encode([text]).values), len(loaded.encode_spans([text[: millions * 300_000]]).ids.values))
print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.parametrize("millions", [1, pytest.param(3, marks=pytest.mark.soak)])
@pytest.mark.parametrize("japanese", [True, False])
def test_a_million_characters_take_less_than_a_third_of_a_gigabyte(
    japanese: bool, millions: int, tmp_path: Path
) -> None:
    """Whether they are sentences or one letter again and again, in a process of its own, as its peak counts."""
    command = [sys.executable, "-c", LONG, tiny.tokenizer(tmp_path, japanese), str(millions)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=300)
    *counts, (kilobytes,) = (line.split() for line in done.stdout.splitlines())
    assert len(counts) == 4
    assert all(int(tokens) > 0 < int(spans) for tokens, spans in counts)
    assert int(kilobytes) < millions * (1 << 20) // 3
