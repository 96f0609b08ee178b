"""A tokenizer with fewer pieces: what stays is cut as before, and other words can still be spelt."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer

from pipelines.core.errors import UsageError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.text import tokenizer, vocabulary_pruning
from pipelines.text.protocol import Tokenizer
from tests.support import tiny

USED = tiny.TEXTS[:2]  # half of the texts that the vocabulary is learned from
OTHER = tiny.TEXTS[2:4]


def shortened(name: str, folder: Path, characters: bool = True) -> tuple[Tokenizer, Tokenizer, list[int]]:
    """The whole tokenizer, the one with the pieces of USED, and the ids that stayed."""
    return shortened_from(tiny.tokenizer(folder / "whole", name=name), folder / "short", characters)


def shortened_from(source: Path, target: Path, characters: bool = True) -> tuple[Tokenizer, Tokenizer, list[int]]:
    opened = OpenedFolder(source)
    whole = tokenizer.load(opened)
    stay = vocabulary_pruning.staying(whole, np.unique(whole.encode(USED).values).tolist(), characters, opened)
    vocabulary_pruning.write(whole, opened, target, stay)
    return whole, tokenizer.load(target), stay


@pytest.mark.parametrize("name", vocabulary_pruning.KINDS)
def test_the_texts_in_use_are_cut_as_before(name: str, tmp_path: Path) -> None:
    whole, short, stay = shortened(name, tmp_path, characters=name != "mecab_character")
    assert short.name == name
    assert short.vocab_size == len(stay) < whole.vocab_size
    assert short.tokens(range(len(stay))) == whole.tokens(stay)
    for part in ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id"):
        assert stay[getattr(short, part)] == getattr(whole, part)
    texts = [*USED, USED[0] + USED[1], USED[1][:5]]
    before, after = whole.encode_spans(texts), short.encode_spans(texts)
    staying = np.isin(before.ids.values, stay)
    assert staying.mean() > 0.9
    if staying.all():
        assert np.array_equal(np.array(stay)[after.ids.values], before.ids.values)
        assert np.array_equal(after.starts, before.starts)
    assert np.array_equal(np.array(stay)[short.encode(USED).values], whole.encode(USED).values)


@pytest.mark.parametrize("name", [name for name in vocabulary_pruning.KINDS if name != "mecab_character"])
def test_unseen_words_are_spelt_with_characters(name: str, tmp_path: Path) -> None:
    whole, short, _ = shortened(name, tmp_path)
    before, after = whole.encode(OTHER), short.encode(OTHER)
    assert (after.values == short.unk_id).sum() == (before.values == whole.unk_id).sum()
    assert len(after.values) > len(before.values)


@pytest.mark.parametrize("name", vocabulary_pruning.WORDPIECES)
def test_without_characters_unseen_words_are_unknown(name: str, tmp_path: Path) -> None:
    whole, short, _ = shortened(name, tmp_path, characters=False)
    assert (short.encode(OTHER).values == short.unk_id).sum() > (whole.encode(OTHER).values == whole.unk_id).sum()


@pytest.mark.parametrize("name", ["wordpiece", "mecab_wordpiece", "bpe", "unigram"])
def test_transformers_opens_it_with_the_same_ids(name: str, tmp_path: Path) -> None:
    _, short, _ = shortened(name, tmp_path)
    theirs: Any = AutoTokenizer.from_pretrained(tmp_path / "short")
    their_ids = theirs(USED, add_special_tokens=False)["input_ids"]
    assert [i for row in their_ids for i in row] == short.encode(USED).values.tolist()
    assert theirs.pad_token_id == short.pad_id


def test_facts_about_the_ids_carry_over_to_the_new_ones(tmp_path: Path) -> None:
    folder = tiny.tokenizer(tmp_path / "whole", name="bpe")
    config = folder / "tokenizer_config.json"
    values = json.loads(config.read_text())
    used = {"special_tokens": "text", "fingerprint": tokenizer.fingerprint(tokenizer.load(folder))}
    config.write_text(json.dumps(values | {"bertline": used}))
    _, short, _ = shortened_from(folder, tmp_path / "short")
    facts = tokenizer.used(OpenedFolder(tmp_path / "short"))
    assert facts == {"special_tokens": "text", "fingerprint": tokenizer.fingerprint(short)}
    assert facts["fingerprint"] != used["fingerprint"]


def test_a_template_of_special_tokens_has_the_new_ids() -> None:
    new = {5: 0, 9: 1}
    post = {
        "type": "Sequence",
        "processors": [
            {"type": "BertProcessing", "sep": ["[SEP]", 9], "cls": ["[CLS]", 5]},
            {
                "type": "TemplateProcessing",
                "special_tokens": {"[SEP]": {"id": "[SEP]", "ids": [9], "tokens": ["[SEP]"]}},
            },
        ],
    }
    bert, template = vocabulary_pruning._renumbered(post, new)["processors"]
    assert (bert["sep"], bert["cls"]) == (["[SEP]", 1], ["[CLS]", 0])
    assert template["special_tokens"]["[SEP]"]["ids"] == [1]
    assert vocabulary_pruning._renumbered(None, new) is None


def test_what_cannot_be_shortened_fails_in_one_sentence() -> None:
    with pytest.raises(
        UsageError, match="x: no tokenizer that can be shortened 'hf'; there are: bpe, mecab_character, "
    ):
        vocabulary_pruning.check("hf", True, "x")
    with pytest.raises(UsageError, match="x: characters: false: bpe needs its characters to split other words as"):
        vocabulary_pruning.check("bpe", False, "x")
