"""mecab_wordpiece: Japanese words by MeCab, then WordPiece within each, with the ids of BertJapaneseTokenizer.

One difference: BertJapaneseTokenizer drops the rest of a text after U+0000; here U+0000 is a space.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal

from tokenizers import Tokenizer as Backend
from tokenizers import pre_tokenizers

from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.section import Section
from pipelines.text import mecab, vocab
from pipelines.text.chunks import plain
from pipelines.text.normalize import nfkc

NAME = "mecab_wordpiece"


class Params(Section):
    dictionary: Literal["ipadic", "unidic-lite"] = "ipadic"


def train(texts: Callable[[], Iterator[str]], folder: Path, size: int, params: Params) -> None:
    """Learn a vocabulary of the words' pieces and write the tokenizer's files into `folder`."""
    tagger = mecab.tagger(params.dictionary)

    def words() -> Iterator[str]:
        """The words of each text, in the pieces in which it will be encoded."""
        for text in texts():
            yield " ".join(mecab.spaced_words(tagger, nfkc(piece)) for piece in plain(text))

    backend = Backend(vocab.wordpiece({token: i for i, token in enumerate(vocab.SPECIAL)}))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learned = vocab.learn(backend, words, size)
    vocab.write(folder, learned, mecab.written(params.dictionary, "wordpiece"))


def load(folder: OpenedFolder) -> mecab.MecabTokenizer:
    """The tokenizer of a folder of ours, or of any BertJapaneseTokenizer with MeCab words and WordPieces."""
    config, pieces = mecab.Config(folder, "wordpiece"), vocab.read(folder.path)
    model = vocab.wordpiece(pieces)
    words = mecab.Words(lambda word: [token.id for token in model.tokenize(word)])
    return mecab.MecabTokenizer(NAME, pieces, vocab.specials(pieces), words, config)
