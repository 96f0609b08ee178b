"""mecab_character: Japanese words by MeCab, then single characters, with the ids of BertJapaneseTokenizer.

Two differences: BertJapaneseTokenizer drops the rest of a text after U+0000, which is a space here; and white space
that MeCab keeps (line ends, U+2028) is an unknown character there, and separates words here.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from pipelines.core.errors import InputError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.section import Section
from pipelines.text import mecab, vocab
from pipelines.text.normalize import nfkc

NAME = "mecab_character"


class Params(Section):
    dictionary: Literal["ipadic", "unidic-lite"] = "ipadic"


def train(texts: Callable[[], Iterator[str]], folder: Path, size: int, params: Params) -> None:
    """Take the most frequent characters, in code order if equally frequent, and write the tokenizer's files."""
    counts = Counter(letter for text in texts() for letter in "".join(nfkc(text).split()))
    if not counts:
        raise InputError("build_vocab: no text to learn a vocabulary from")
    letters = sorted(counts, key=lambda letter: (-counts[letter], letter))[: size - len(vocab.SPECIAL)]
    learned = {piece: i for i, piece in enumerate([*vocab.SPECIAL, *letters])}
    vocab.write(folder, learned, mecab.written(params.dictionary, "character"))


def load(folder: OpenedFolder) -> mecab.MecabTokenizer:
    """The tokenizer of a folder of ours, or of any BertJapaneseTokenizer with MeCab words and characters."""
    config, pieces = mecab.Config(folder, "character"), vocab.read(folder.path)
    specials = vocab.specials(pieces)
    words = mecab.Words(lambda word: [pieces.get(letter, specials.unk) for letter in word])
    return mecab.MecabTokenizer(NAME, pieces, specials, words, config)
