"""Ids are the reference tokenizers' own, whatever the text."""

import json
import shutil
from pathlib import Path
from types import ModuleType

import pytest
from transformers import (
    AutoTokenizer,
    BertJapaneseTokenizer,
    BertTokenizerFast,
    PreTrainedTokenizerBase,
)

from pipelines.data.corpora import livedoor
from pipelines.data.formats.records import tsv
from pipelines.data.formats.squad_json import questions
from pipelines.text import tokenizer, vocab
from pipelines.text.tokenizers import bpe, mecab_character, mecab_wordpiece, unigram, wordpiece
from tests.support import odd_texts, tiny
from tests.support.places import MIRROR, ROOT, needs_mirror


@pytest.mark.parametrize("dictionary", ["ipadic", "unidic-lite"])
def test_japanese_ids_are_the_references_own(dictionary: str, tmp_path: Path) -> None:
    tables = [path.read_text(encoding="utf-8") for path in sorted((ROOT / "samples/livedoor").glob("*.tsv"))]
    texts = [line.split("\t")[0] for table in tables for line in table.splitlines()]
    assert len(texts) > 300
    mecab_wordpiece.train(lambda: iter(texts), tmp_path, 2000, mecab_wordpiece.Params(dictionary=dictionary))
    reference = AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(reference, BertJapaneseTokenizer)
    plain = [
        text for text in [*texts, *odd_texts.SOME] if "[MASK]" not in text
    ]  # the one difference: names of special tokens
    encoded = tokenizer.load(tmp_path).encode(plain)
    for i, text in enumerate(plain):
        ids = encoded.values[encoded.offsets[i] : encoded.offsets[i + 1]].tolist()
        assert ids == reference.encode(text, add_special_tokens=False), text


@pytest.mark.parametrize("lowercase", [True, False])
def test_english_ids_are_the_references_own(lowercase: bool, tmp_path: Path) -> None:
    texts = (ROOT / "samples/entailment/train.tsv").read_text().replace("\t", "\n").splitlines()
    wordpiece.train(lambda: iter(texts), tmp_path, 500, wordpiece.Params(lowercase=lowercase))
    reference = AutoTokenizer.from_pretrained(tmp_path)
    some = ["Ünïcode café", "it's 3.5%, isn't it?", *[t for t in odd_texts.SOME if "[MASK]" not in t], *texts]
    encoded = tokenizer.load(tmp_path).encode(some)
    for i, text in enumerate(some):
        ids = encoded.values[encoded.offsets[i] : encoded.offsets[i + 1]].tolist()
        assert ids == reference.encode(text, add_special_tokens=False), text


@pytest.mark.parametrize("chinese", [True, False])
@pytest.mark.parametrize("accents", [True, False, None])
@pytest.mark.parametrize("lowercase", [True, False])
def test_settings_of_a_normalizer_are_read_as_transformers_reads_them(
    lowercase: bool, accents: bool | None, chinese: bool, tmp_path: Path
) -> None:
    pieces = [*vocab.SPECIAL, "uber", "über", "Uber", "Über", "the", "犬", "猫", "犬猫", "##猫"]
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": lowercase}
    config |= {"strip_accents": accents, "tokenize_chinese_chars": chinese}
    vocab.write(tmp_path, {piece: i for i, piece in enumerate(pieces)}, config)
    text, reference = "Über the 犬猫", AutoTokenizer.from_pretrained(tmp_path)
    ids = tokenizer.load(tmp_path).encode([text]).values.tolist()
    assert ids == reference.encode(text, add_special_tokens=False)
    assert wordpiece.whole(tmp_path).encode(text, add_special_tokens=False).ids == ids


@pytest.mark.parametrize("plugin", [bpe, unigram, mecab_character], ids=lambda p: p.NAME)
def test_other_ids_are_those_of_transformers(plugin: ModuleType, tmp_path: Path) -> None:
    """transformers' own reading of the folder that we write."""
    texts = (ROOT / "samples/entailment/train.tsv").read_text().replace("\t", "\n").splitlines() + tiny.TEXTS
    plugin.train(lambda: iter(texts), tmp_path, 600, plugin.Params())
    reference = AutoTokenizer.from_pretrained(tmp_path)
    some = [*[text for text in odd_texts.SOME if "[MASK]" not in text], "Ünïcode café", "it's 3.5%, isn't it?", *texts]
    encoded = tokenizer.load(tmp_path).encode(some)
    for i, text in enumerate(some):
        ids = encoded.values[encoded.offsets[i] : encoded.offsets[i + 1]].tolist()
        assert ids == reference.encode(text, add_special_tokens=False), text


def test_a_vocabulary_is_learned_the_same_way_twice(tmp_path: Path) -> None:
    a, b = tiny.tokenizer(tmp_path / "a"), tiny.tokenizer(tmp_path / "b")
    assert (a / "vocab.txt").read_bytes() == (b / "vocab.txt").read_bytes()


def published(folder: Path, file: str, config: dict[str, object]) -> tokenizer.Tokenizer:
    """A folder with one of the mirror's vocabularies."""
    shutil.copyfile(MIRROR / "vocab" / file, folder / "vocab.txt")
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return tokenizer.load(folder)


PART = [pytest.param(10, id="a tenth"), pytest.param(1, id="all", marks=pytest.mark.soak)]


@pytest.mark.real_data
@pytest.mark.parametrize("every", PART)
@needs_mirror
def test_livedoor_titles_and_2000_bodies_get_the_references_ids(every: int, tmp_path: Path) -> None:
    config = {"tokenizer_class": "BertJapaneseTokenizer", "word_tokenizer_type": "mecab"}
    config |= {"subword_tokenizer_type": "wordpiece", "mecab_kwargs": {"mecab_dic": "ipadic"}}
    loaded = published(tmp_path, "bert-base-japanese-v1_vocab.txt", config)
    assert loaded.encode(["私は犬が好き。"]).values.tolist() == [1325, 9, 2928, 14, 3596, 8]
    articles = livedoor.read(MIRROR / "livedoor" / livedoor.ARCHIVE)
    texts = [a.title for a in articles] + [a.body for a in articles[:: len(articles) // 2000]]
    assert len(texts) >= 7367 + 2000
    same_ids(loaded, AutoTokenizer.from_pretrained(tmp_path), texts[::every])


@pytest.mark.real_data
@pytest.mark.parametrize("every", PART)
@needs_mirror
def test_english_reviews_and_paragraphs_get_the_references_ids(every: int, tmp_path: Path) -> None:
    config = {"tokenizer_class": "BertTokenizer", "do_lower_case": True}
    loaded = published(tmp_path, "bert-base-uncased_vocab.txt", config)
    texts = [record["sentence"] for _, record in tsv(MIRROR / "glue/SST-2/train.tsv")]
    rows = list(questions(MIRROR / "squad/dev-v2.0.reconstructed.json"))
    texts += [row["question"] for row in rows] + list(dict.fromkeys(row["context"] for row in rows))
    assert len(texts) > 67349 + 11873
    same_ids(loaded, BertTokenizerFast.from_pretrained(tmp_path), texts[::every])


def same_ids(loaded: tokenizer.Tokenizer, reference: PreTrainedTokenizerBase, texts: list[str]) -> None:
    encoded = loaded.encode(texts)
    for i, text in enumerate(texts):
        ids = encoded.values[encoded.offsets[i] : encoded.offsets[i + 1]].tolist()
        assert ids == reference.encode(text, add_special_tokens=False, verbose=False), text
