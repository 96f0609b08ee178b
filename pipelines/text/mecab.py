"""The base of the tokenizers with MeCab: MeCab finds the words, and each distinct word is split into pieces once."""

import importlib
import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pipelines.core.errors import InputError, choices, shown
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.ragged import Ragged, Spans, offsets, ragged
from pipelines.text import alignment, protocol
from pipelines.text.chunks import InPieces, plain
from pipelines.text.normalize import nfkc
from pipelines.text.protocol import Specials

# the dictionary's name in params and in Hugging Face folders -> its package
DICTIONARIES = {"ipadic": "ipadic", "unidic-lite": "unidic_lite"}
MAX_WORDS = 1 << 20  # maximum number of words in the cache
LONG_RUN = 1000
RUN = re.compile(rf"[^\s。一-鿿]{{{LONG_RUN}}}")  # a long run of kana, letters or signs, unusual in texts
MAX_LETTERS = 100  # maximum length of a word in the cache


class Words(dict[str, list[int]]):
    """A cache of words and their ids; `split` computes the ids of a new word.

    Threads may share it: if two look up a new word at the same time, both compute the same ids.
    """

    def __init__(self, split: Callable[[str], list[int]]) -> None:
        super().__init__()
        self._split = split

    def __missing__(self, word: str) -> list[int]:
        ids = self._split(word)
        if len(word) <= MAX_LETTERS:
            if len(self) >= MAX_WORDS:
                self.clear()
            self[word] = ids
        return ids


class MecabTokenizer(InPieces):
    """A tokenizer that takes words from MeCab's wakati string and splits each distinct word into pieces."""

    threaded = False  # fugashi holds the interpreter's lock
    middle = 1

    def __init__(self, name: str, vocab: Mapping[str, int], specials: Specials, words: Words, config: Any) -> None:
        self.name, self.vocab_size = name, len(vocab)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = specials
        self.dictionary: str = config.dictionary
        self.lowercase: bool = config.lowercase
        self._pieces = {i: piece for piece, i in vocab.items()}
        self._tagger = tagger(self.dictionary)
        self._words = words

    def _encode(self, texts: Sequence[str]) -> Ragged:
        """Ids of each text.

        Arrow splits the texts into words and finds the distinct words; only these become Python objects.
        """
        words = pc.utf8_split_whitespace(pa.array(map(self._wakati, texts), pa.string()))
        coded = words.values.dictionary_encode()
        distinct = ragged([self._words[word] for word in coded.dictionary.to_pylist()])
        rows = distinct.take(coded.indices.to_numpy())
        return Ragged(rows.values, rows.offsets[words.offsets.to_numpy()])

    def words(self, texts: Sequence[str]) -> np.ndarray | None:
        """The number of words of each text, and the number of words not in the dictionary: (N, 2)."""
        counts = np.zeros((len(texts), 2), np.int64)
        for row, text in enumerate(texts):
            for part in plain(nfkc(text)):
                nodes = self._tagger.parseToNodeList(_spaced(part))
                counts[row] += len(nodes), sum(node.is_unk for node in nodes)
        return counts

    def _parse(self, text: str) -> str:
        return spaced_words(self._tagger, text)

    def _wakati(self, text: str) -> str:
        parsed = self._parse(nfkc(text))
        return parsed.lower() if self.lowercase else parsed

    def _encode_spans(self, texts: Sequence[str]) -> Spans:
        rows = [self._spans(text) for text in texts]
        lengths = np.array([len(ids) for ids, _, _ in rows], np.int64)
        nothing = np.zeros(0, np.int64)
        ids, starts, ends = (np.concatenate([nothing, *(row[i] for row in rows)]).astype(np.int64) for i in range(3))
        return Spans(Ragged(ids.astype(np.uint32), offsets(lengths)), starts, ends)

    def _spans(self, text: str) -> tuple[list[int], np.ndarray, np.ndarray]:
        """Ids, and the starts and ends of their characters in `text`.

        MeCab's words stand in the normalized text in order, with only white space between them. The pieces of a word
        cover its characters from left to right; an unknown word is one piece.
        """
        normal, starts, ends = alignment.nfkc(text)
        ids: list[int] = []
        first: list[int] = []
        last: list[int] = []
        at = 0
        for word in self._parse(normal).split():
            at = normal.index(word, at)
            place, end = at, at + len(word)
            pieces = self._words[word.lower() if self.lowercase else word]
            for piece in pieces:
                ids.append(piece)
                first.append(min(place, end - 1))
                place += self._size(piece, word, len(pieces), place > at)
                last.append(min(place, end) - 1)  # lower case may be longer than the word
            at = end
        return ids, starts[first] if first else starts[:0], ends[last] if last else ends[:0]

    def _size(self, piece: int, word: str, pieces: int, inside: bool) -> int:
        """The number of characters of `word` that a piece covers."""
        if piece == self.unk_id:
            return len(word) if pieces == 1 else 1
        name = self._pieces[piece]
        return len(name.removeprefix("##") if inside else name)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces with these ids."""
        return [self._pieces[int(i)] for i in ids]

    def about(self) -> dict[str, str]:
        """Name, dictionary and versions, for provenance."""
        return {
            "name": self.name,
            "dictionary": self.dictionary,
            "dictionary_version": version(self.dictionary),
            "fugashi": version("fugashi"),
            "tokenizers": version("tokenizers"),
        }


def spaced_words(mecab: Any, text: str) -> str:
    """The words of a normalized text with spaces between them, by a tagger; the text is a piece (`chunks.plain`)."""
    return mecab.parse(_spaced(text))


def _spaced(text: str) -> str:
    """The text as MeCab gets it: a space for U+0000, where MeCab would stop, and one after each long run.

    MeCab's time grows with the square of the run's length.
    """
    text = text.replace("\0", " ")
    return RUN.sub(r"\g<0> ", text) if len(text) >= LONG_RUN else text


class Config:
    """The settings of a BertJapaneseTokenizer folder."""

    def __init__(self, folder: OpenedFolder, subwords: str) -> None:
        config = folder.tokenizer_config
        # the defaults are those of transformers
        for key, only, default in (
            ("word_tokenizer_type", "mecab", "basic"),
            ("subword_tokenizer_type", subwords, "wordpiece"),
        ):
            if (value := config.get(key, default)) != only:
                raise InputError(f"{folder / protocol.CONFIG}: {key} is {shown(value)}; only {only!r} can be read")
        package = (config.get("mecab_kwargs") or {}).get("mecab_dic", "unidic_lite")
        names = {package: name for name, package in DICTIONARIES.items()}
        if not isinstance(package, str) or package not in names:
            raise InputError(f"{folder / protocol.CONFIG}: {choices('mecab_dic', package, names)}")
        self.dictionary = names[package]
        self.lowercase = bool(config.get("do_lower_case", False))


def written(dictionary: str, subwords: str) -> dict[str, Any]:
    """The tokenizer_config.json of a folder that `Config` reads."""
    return {
        "tokenizer_class": protocol.MECAB_CLASS,
        "word_tokenizer_type": "mecab",
        "subword_tokenizer_type": subwords,
        "do_lower_case": False,
        "mecab_kwargs": {"mecab_dic": DICTIONARIES[dictionary]},
    }


@cache
def tagger(dictionary: str) -> Any:
    """The MeCab tagger of a dictionary, one per process; it separates words by spaces.

    There is only one, since fugashi never frees the memory of a tagger. Threads may share it: fugashi holds the
    interpreter's lock from the text to the string. Raises InputError if a package is not installed.
    """
    try:
        import fugashi

        package: Any = importlib.import_module(DICTIONARIES[dictionary])
    except ModuleNotFoundError as error:
        raise InputError(f"the package {error.name} is not installed; MeCab with {dictionary} needs it") from None
    rc = Path(package.DICDIR) / "mecabrc"
    return fugashi.GenericTagger(f'-d "{package.DICDIR}" -r "{rc}" -Owakati')
