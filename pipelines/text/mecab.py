"""Japanese words by MeCab, and the pieces of each, found once: what the tokenizers on MeCab share."""

import importlib
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.core.errors import InputError, choices
from pipelines.core.ragged import Ragged, Spans, offsets, ragged
from pipelines.text import alignment, tokenizer
from pipelines.text.tokenizer import Specials

# the dictionary's name in params and in Hugging Face folders -> its package
DICTIONARIES = {"ipadic": "ipadic", "unidic-lite": "unidic_lite"}
MAX_WORDS = 1 << 20  # distinct words remembered with their pieces
TEXTS_AT_ONCE = 64  # whose words are Python objects at the same time


class Words(dict[str, int]):
    """Distinct words by number, each with the ids that `split` finds when it is first asked for."""

    def __init__(self, split: Callable[[str], list[int]]) -> None:
        super().__init__()
        self._split = split
        self._ids: list[list[int]] = []
        self._pieces = ragged([])

    def __missing__(self, word: str) -> int:
        number = self[word] = len(self._ids)
        self._ids.append(self._split(word))
        return number

    def pieces(self) -> Ragged:
        """The ids of every word so far: row i is the word with number i."""
        if len(self._pieces.offsets) != len(self._ids) + 1:
            self._pieces = ragged(self._ids)
        return self._pieces

    def ids(self, word: str) -> list[int]:
        return self._ids[self[word]]

    def clear(self) -> None:
        super().clear()
        self._ids, self._pieces = [], ragged([])


class MecabTokenizer:
    """MeCab's wakati string, and the pieces of each distinct word."""

    threaded = False  # fugashi holds the interpreter's lock
    middle = 1

    def __init__(self, name: str, vocab: Mapping[str, int], specials: Specials, words: Words, config: Any) -> None:
        self.name, self.vocab_size = name, len(vocab)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = specials
        self.dictionary: str = config.dictionary
        self.lowercase: bool = config.lowercase
        self._pieces = {i: piece for piece, i in vocab.items()}
        self._parse = tagger(self.dictionary).parse
        self._words = words

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Ids of each text, without special tokens."""
        words = self._words
        if len(words) > MAX_WORDS:
            words.clear()
        counts = np.zeros(len(texts), np.int64)
        numbers = [np.zeros(0, np.int64)]
        for start in range(0, len(texts), TEXTS_AT_ONCE):
            rows = [self._wakati(text).split() for text in texts[start : start + TEXTS_AT_ONCE]]
            counts[start : start + len(rows)] = [len(row) for row in rows]
            numbers.append(np.fromiter(map(words.__getitem__, chain.from_iterable(rows)), np.int64))
        found = words.pieces().take(np.concatenate(numbers))
        return Ragged(found.values, found.offsets[offsets(counts)])

    def _wakati(self, text: str) -> str:
        parsed = self._parse(normalize(text))
        return parsed.lower() if self.lowercase else parsed

    def encode_spans(self, texts: Sequence[str]) -> Spans:
        """Ids of each text, and the characters of the text that each token comes from."""
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
            place, end = at, at + len(word)
            pieces = self._words.ids(word.lower() if self.lowercase else word)
            for piece in pieces:
                ids.append(piece)
                first.append(min(place, end - 1))
                place += self._size(piece, word, len(pieces), place > at)
                last.append(min(place, end) - 1)  # lower case may be longer than the word
            at = end
        return ids, starts[first] if first else starts[:0], ends[last] if last else ends[:0]

    def _size(self, piece: int, word: str, pieces: int, inside: bool) -> int:
        """How many characters of `word` a piece stands for."""
        if piece == self.unk_id:
            return len(word) if pieces == 1 else 1
        name = self._pieces[piece]
        return len(name.removeprefix("##") if inside else name)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces that ids stand for."""
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


class Config:
    """What a BertJapaneseTokenizer folder says of its words and pieces."""

    def __init__(self, folder: Path, subwords: str) -> None:
        config = tokenizer.read_config(folder)
        # what is not said is transformers' own default
        for key, only, default in (
            ("word_tokenizer_type", "mecab", "basic"),
            ("subword_tokenizer_type", subwords, "wordpiece"),
        ):
            if (found := config.get(key, default)) != only:
                raise InputError(f"{folder / tokenizer.CONFIG}: {key} is {found!r}; {only!r} is read here")
        package = (config.get("mecab_kwargs") or {}).get("mecab_dic", "unidic_lite")
        names = {package: name for name, package in DICTIONARIES.items()}
        if package not in names:
            raise InputError(f"{folder / tokenizer.CONFIG}: {choices('mecab_dic', package, names)}")
        self.dictionary = names[package]
        self.lowercase = bool(config.get("do_lower_case", False))


def written(dictionary: str, subwords: str) -> dict[str, Any]:
    """The tokenizer_config.json of a folder that `Config` reads."""
    return {
        "tokenizer_class": "BertJapaneseTokenizer",
        "word_tokenizer_type": "mecab",
        "subword_tokenizer_type": subwords,
        "do_lower_case": False,
        "mecab_kwargs": {"mecab_dic": DICTIONARIES[dictionary]},
    }


def normalize(text: str) -> str:
    """NFKC, as BertJapaneseTokenizer does before MeCab: full-width letters become ASCII, half-width kana full."""
    return unicodedata.normalize("NFKC", text)


def tagger(dictionary: str) -> Any:
    """MeCab that answers with words between spaces."""
    try:
        import fugashi

        package: Any = importlib.import_module(DICTIONARIES[dictionary])
    except ModuleNotFoundError as error:
        raise InputError(f"the package {error.name} is not installed; MeCab with {dictionary} needs it") from None
    rc = Path(package.DICDIR) / "mecabrc"
    return fugashi.GenericTagger(f'-d "{package.DICDIR}" -r "{rc}" -Owakati')
