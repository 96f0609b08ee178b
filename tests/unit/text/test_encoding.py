"""Ids: the reference tokenizers' own, whatever the text; pairs cut as transformers cuts them."""

import json
import shutil
import warnings
from pathlib import Path
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoTokenizer,
    BertJapaneseTokenizer,
    BertTokenizerFast,
    PreTrainedTokenizerBase,
    RobertaTokenizerFast,
)

from pipelines.core.errors import InputError
from pipelines.core.task import Task
from pipelines.data.corpora import livedoor
from pipelines.data.formats.records import tsv
from pipelines.data.formats.squad_json import questions
from pipelines.text import encoding, tokenizer
from pipelines.text.encoding import sequence
from pipelines.text.tokenizers import bpe, mecab_character, mecab_wordpiece, unigram, wordpiece
from tests import tiny
from tests.conftest import MIRROR, ROOT, needs_mirror

ODD = ["", "   ", "😀😀", "Ｆｕｌｌ　ｗｉｄｔｈ ｶﾅ", "a\tb\nc", "㍻①", "x" * 300, "[MASK]です", "\u200bゼロ幅"]
PAIR = Task("t", "pair", ("a", "b"))


@pytest.mark.parametrize("dictionary", ["ipadic", "unidic-lite"])
def test_japanese_ids_are_the_references_own(dictionary: str, tmp_path: Path) -> None:
    tables = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "samples/livedoor").glob("*.tsv"))]
    texts = [line.split("\t")[0] for table in tables for line in table.splitlines()]
    assert len(texts) > 300
    mecab_wordpiece.train(lambda: iter(texts), tmp_path, 2000, mecab_wordpiece.Params(dictionary=dictionary))
    reference = AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(reference, BertJapaneseTokenizer)
    plain = [text for text in [*texts, *ODD] if "[MASK]" not in text]  # the one difference: names of special tokens
    found = tokenizer.load(tmp_path).encode(plain)
    for i, text in enumerate(plain):
        ids = found.values[found.offsets[i] : found.offsets[i + 1]].tolist()
        assert ids == reference.encode(text, add_special_tokens=False), text


@pytest.mark.parametrize("lowercase", [True, False])
def test_english_ids_are_the_references_own(lowercase: bool, tmp_path: Path) -> None:
    texts = (ROOT / "samples/entailment/train.tsv").read_text().replace("\t", "\n").splitlines()
    wordpiece.train(lambda: iter(texts), tmp_path, 500, wordpiece.Params(lowercase=lowercase))
    reference = AutoTokenizer.from_pretrained(tmp_path)
    some = ["Ünïcode café", "it's 3.5%, isn't it?", *[t for t in ODD if "[MASK]" not in t], *texts]
    found = tokenizer.load(tmp_path).encode(some)
    for i, text in enumerate(some):
        ids = found.values[found.offsets[i] : found.offsets[i + 1]].tolist()
        assert ids == reference.encode(text, add_special_tokens=False), text


@pytest.mark.parametrize("plugin", [bpe, unigram, mecab_character], ids=lambda p: p.NAME)
def test_other_ids_are_those_of_transformers(plugin: ModuleType, tmp_path: Path) -> None:
    """transformers' own reading of the folder that we write."""
    texts = (ROOT / "samples/entailment/train.tsv").read_text().replace("\t", "\n").splitlines() + tiny.TEXTS
    plugin.train(lambda: iter(texts), tmp_path, 600, plugin.Params())
    reference = AutoTokenizer.from_pretrained(tmp_path)
    some = [*[text for text in ODD if "[MASK]" not in text], "Ünïcode café", "it's 3.5%, isn't it?", *texts]
    found = tokenizer.load(tmp_path).encode(some)
    for i, text in enumerate(some):
        ids = found.values[found.offsets[i] : found.offsets[i + 1]].tolist()
        assert ids == reference.encode(text, add_special_tokens=False), text


def test_a_vocabulary_is_learned_the_same_way_twice(tmp_path: Path) -> None:
    a, b = tiny.tokenizer(tmp_path / "a"), tiny.tokenizer(tmp_path / "b")
    assert (a / "vocab.txt").read_bytes() == (b / "vocab.txt").read_bytes()


@settings(max_examples=200, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 20), st.integers(0, 20)), min_size=1), st.integers(1, 24))
def test_pairs_are_cut_longest_first_a_token_at_a_time(lengths: list[tuple[int, int]], room: int) -> None:
    import numpy as np

    first, second = np.array(lengths).T
    kept = sequence.longest_first(first, second, room)
    for i, (a, b) in enumerate(lengths):
        while a + b > room:
            a, b = (a - 1, b) if a > b else (a, b - 1)
        assert (kept[0][i], kept[1][i]) == (a, b)


@pytest.mark.parametrize("plugin", [wordpiece, bpe], ids=lambda p: p.NAME)
def test_a_pair_is_as_transformers_encodes_it(plugin: ModuleType, tmp_path: Path) -> None:
    folder, rows = (
        tmp_path,
        [("ab cd", "ef"), ("", "x"), ("a b c d e f g h", "a b c d e"), ("a b", "c d e f g h i j k")],
    )
    plugin.train(lambda: (text for row in rows for text in row), folder, 300, plugin.Params())
    reference = (BertTokenizerFast if plugin is wordpiece else RobertaTokenizerFast).from_pretrained(folder)
    batch = pa.RecordBatch.from_pylist([{"id": str(i), "text": a, "text_pair": b} for i, (a, b) in enumerate(rows)])
    found, cut = sequence.encode(batch, tokenizer.load(folder), PAIR, 10)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = [reference(a, b, truncation="longest_first", max_length=10) for a, b in rows]
    assert found.column("input_ids").to_pylist() == [w["input_ids"] for w in wanted]
    if plugin is wordpiece:
        assert found.column("first_length").to_pylist() == [w["token_type_ids"].count(0) for w in wanted]
    assert cut == sum(len(reference(a, b)["input_ids"]) > 10 for a, b in rows) > 0


def test_long_empty_and_odd_texts_are_encoded(tmp_path: Path) -> None:
    loaded = tokenizer.load(tiny.tokenizer(tmp_path))
    batch = pa.RecordBatch.from_pylist([{"id": str(i), "text": text, "label": None} for i, text in enumerate(ODD)])
    found, _ = encoding.for_kind("single").encode(batch, loaded, Task("t", "single", ("a",)), 8)
    assert max(found.column("length").to_pylist()) <= 8
    assert found.column("input_ids").to_pylist()[0] == [loaded.cls_id, loaded.sep_id]


def test_folders_without_a_tokenizer_or_with_a_foreign_one_are_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no tokenizer_config.json"):
        tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "T5Tokenizer"}')
    with pytest.raises(InputError, match=r"no tokenizer_class 'T5Tokenizer' .*there are: AlbertTokenizer"):
        tokenizer.load(tmp_path)
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n")
    with pytest.raises(InputError, match=r"no \[MASK\] in it"):
        tokenizer.load(tmp_path)


def published(folder: Path, file: str, config: dict[str, object]) -> tokenizer.Tokenizer:
    """A folder with one of the mirror's vocabularies."""
    shutil.copyfile(MIRROR / "vocab" / file, folder / "vocab.txt")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer.load(folder)


@pytest.mark.real_data
@pytest.mark.slow
@needs_mirror
def test_all_livedoor_titles_and_2000_bodies_get_the_references_ids(tmp_path: Path) -> None:
    config = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab"}
    config |= {"subword_tokenizer_type": "wordpiece", "mecab_kwargs": {"mecab_dic": "ipadic"}}  # type: ignore[dict-item]
    loaded = published(tmp_path, "bert-base-japanese-v1_vocab.txt", config)
    assert loaded.encode(["私は犬が好き。"]).values.tolist() == [1325, 9, 2928, 14, 3596, 8]
    articles = livedoor.read(MIRROR / "livedoor" / livedoor.ARCHIVE)
    texts = [a.title for a in articles] + [a.body for a in articles[:: len(articles) // 2000]]
    assert len(texts) >= 7367 + 2000
    same_ids(loaded, AutoTokenizer.from_pretrained(tmp_path), texts)


@pytest.mark.real_data
@pytest.mark.slow
@needs_mirror
def test_english_reviews_and_paragraphs_get_the_references_ids(tmp_path: Path) -> None:
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    loaded = published(tmp_path, "bert-base-uncased_vocab.txt", config)
    texts = [record["sentence"] for _, record in tsv(MIRROR / "glue/SST-2/train.tsv")]
    rows = list(questions(MIRROR / "squad/dev-v2.0.reconstructed.json"))
    texts += [row["question"] for row in rows] + list(dict.fromkeys(row["context"] for row in rows))
    assert len(texts) > 67349 + 11873
    same_ids(loaded, BertTokenizerFast.from_pretrained(tmp_path), texts)


def same_ids(loaded: tokenizer.Tokenizer, reference: PreTrainedTokenizerBase, texts: list[str]) -> None:
    found = loaded.encode(texts)
    for i, text in enumerate(texts):
        ids = found.values[found.offsets[i] : found.offsets[i + 1]].tolist()
        assert ids == reference.encode(text, add_special_tokens=False, verbose=False), text
