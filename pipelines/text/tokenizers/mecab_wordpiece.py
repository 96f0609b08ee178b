"""mecab_wordpiece: Japanese words by MeCab, then WordPiece within each; the ids of transformers' BertJapaneseTokenizer."""

import importlib
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any, Literal

import numpy as np
from tokenizers import Tokenizer as Backend
from tokenizers import pre_tokenizers

from pipelines.core.errors import InputError, choices
from pipelines.core.params import Section
from pipelines.core.ragged import Ragged, Spans, offsets
from pipelines.text import alignment, tokenizer, vocab

NAME = "mecab_wordpiece"
# the dictionary's name in params and in Hugging Face folders -> its package
DICTIONARIES = {"ipadic": "ipadic", "unidic-lite": "unidic_lite"}
MAX_WORDS = 1 << 20  # distinct words remembered with their pieces


class Params(Section):
    dictionary: Literal["ipadic", "unidic-lite"] = "ipadic"


def train(texts: Callable[[], Iterator[str]], folder: Path, size: int, params: Params) -> None:
    """Learn a vocabulary of the words' pieces and write the tokenizer's files into `folder`."""
    words = _tagger(params.dictionary)
    backend = Backend(vocab.wordpiece({token: i for i, token in enumerate(vocab.SPECIAL)}))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learned = vocab.learn(backend, lambda: (words.parse(normalize(text)) for text in texts()), size)
    config = {
        "tokenizer_class": "BertJapaneseTokenizer",
        "word_tokenizer_type": "mecab",
        "subword_tokenizer_type": "wordpiece",
        "do_lower_case": False,
        "mecab_kwargs": {"mecab_dic": DICTIONARIES[params.dictionary]},
    }
    vocab.write(folder, learned, config)


def load(folder: Path) -> "MecabWordPiece":
    """Ours, or any BertJapaneseTokenizer folder with MeCab words and WordPieces."""
    config = tokenizer.read_config(folder)
    for key, only in (("word_tokenizer_type", "mecab"), ("subword_tokenizer_type", "wordpiece")):
        if (found := config.get(key, only)) != only:
            raise InputError(f"{folder / tokenizer.CONFIG}: {key} is {found!r}; {NAME} reads {only!r}")
    package = (config.get("mecab_kwargs") or {}).get("mecab_dic", "ipadic")
    names = {package: name for name, package in DICTIONARIES.items()}
    if package not in names:
        raise InputError(f"{folder / tokenizer.CONFIG}: {choices('mecab_dic', package, names)}")
    return MecabWordPiece(vocab.read(folder), names[package], bool(config.get("do_lower_case", False)))


def normalize(text: str) -> str:
    """NFKC, as BertJapaneseTokenizer does before MeCab: full-width letters become ASCII, half-width kana full."""
    return unicodedata.normalize("NFKC", text)


class MecabWordPiece:
    """MeCab's wakati string, and each distinct word's pieces found once."""

    name = NAME
    threaded = False  # fugashi holds the interpreter's lock

    def __init__(self, pieces: dict[str, int], dictionary: str, lowercase: bool = False) -> None:
        self.vocab_size = len(pieces)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = vocab.specials(pieces)
        self.dictionary, self.lowercase = dictionary, lowercase
        self._pieces = {i: piece for piece, i in pieces.items()}
        self._parse = _tagger(dictionary).parse
        self._words = _WordPieces(pieces)

    def encode(self, texts: Sequence[str]) -> Ragged:
        words = self._words
        if len(words) > MAX_WORDS:
            words.clear()
        rows = [list(chain.from_iterable(map(words.__getitem__, self._wakati(text).split()))) for text in texts]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        values = np.fromiter(chain.from_iterable(rows), np.uint32, int(lengths.sum()))
        return Ragged(values, offsets(lengths))

    def encode_spans(self, texts: Sequence[str]) -> Spans:
        rows = [self._spans(text) for text in texts]
        lengths = np.array([len(ids) for ids, _, _ in rows], np.int64)
        nothing = np.zeros(0, np.int64)
        ids, starts, ends = (np.concatenate([nothing, *(row[i] for row in rows)]).astype(np.int64) for i in range(3))
        return Spans(Ragged(ids.astype(np.uint32), offsets(lengths)), starts, ends)

    def _spans(self, text: str) -> tuple[list[int], np.ndarray, np.ndarray]:
        """Ids, and the characters of `text` that each comes from.

        MeCab's words stand in the normalized text in their order with nothing but white space between them, and
        a word's pieces share its characters out from left to right; an unknown word is one piece.
        """
        normal, starts, ends = alignment.nfkc(text)
        ids: list[int] = []
        first: list[int] = []
        last: list[int] = []
        at = 0
        for word in self._parse(normal).split():
            at = normal.index(word, at)
            place = at
            for piece in self._words[word.lower() if self.lowercase else word]:
                name = self._pieces[piece]
                size = len(word) if piece == self.unk_id else len(name.removeprefix("##")) if place > at else len(name)
                ids.append(piece)
                first.append(min(place, at + len(word) - 1))
                last.append(min(place + size, at + len(word)) - 1)  # lower case may be longer than the word
                place += size
            at += len(word)
        return ids, starts[first] if first else starts[:0], ends[last] if last else ends[:0]

    def _wakati(self, text: str) -> str:
        parsed = self._parse(normalize(text))
        return parsed.lower() if self.lowercase else parsed

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[int(i)] for i in ids]

    def about(self) -> dict[str, str]:
        return {
            "name": NAME,
            "dictionary": self.dictionary,
            "dictionary_version": version(self.dictionary),
            "fugashi": version("fugashi"),
            "tokenizers": version("tokenizers"),
        }


class _WordPieces(dict[str, list[int]]):
    """A word's ids, found by WordPiece when they are first asked for."""

    def __init__(self, pieces: dict[str, int]) -> None:
        super().__init__()
        self._model = vocab.wordpiece(pieces)

    def __missing__(self, word: str) -> list[int]:
        ids = self[word] = [token.id for token in self._model.tokenize(word)]
        return ids


def _tagger(dictionary: str) -> Any:
    """MeCab that answers with words between spaces."""
    try:
        import fugashi

        package: Any = importlib.import_module(DICTIONARIES[dictionary])
    except ModuleNotFoundError as error:
        raise InputError(f"the package {error.name} is not installed; {NAME} with {dictionary} needs it") from None
    rc = Path(package.DICDIR) / "mecabrc"
    return fugashi.GenericTagger(f'-d "{package.DICDIR}" -r "{rc}" -Owakati')
