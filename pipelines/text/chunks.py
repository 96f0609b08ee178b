"""The first steps of every tokenizer: cut a long text into pieces, and find the names of special tokens.

MeCab's lattice takes kilobytes of memory per character, so a text of millions of characters would end the process. A
piece ends where the cut does not change the ids: no word of a tokenizer crosses white space, and MeCab's words after a
sentence seldom depend on that sentence (docs/log/2026-11-text.md).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from pipelines.core.ragged import Ragged, Spans, offsets, positions

MAX_CHARACTERS = 1 << 15  # of a piece; MeCab takes up to 4 kB per character
# where a piece may end, the best place first: before a single space, before other white space, after a sentence
CUTS = tuple(map(re.compile, (r"(?<=\S) (?=\S)", r"\s(?=\S)", "(?<=。)(?!」)")))


class Piece(NamedTuple):
    """A part of a text: plain text, or the name of a special token, which becomes one id."""

    start: int  # position in the text, in characters
    text: str
    special: int  # the id; -1 for plain text


class InPieces(ABC):
    """A tokenizer whose `_encode` and `_encode_spans` get only plain texts of bounded length."""

    special: Mapping[str, int] = {}  # names read as special tokens in a text -> ids; empty: all is plain text
    marks_spaces = False  # whether a piece with a space before it is marked; in WordPiece, one inside a word is

    @abstractmethod
    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces with these ids."""

    def texts(self, ids: Sequence[int]) -> list[str]:
        """The pieces with these ids, the bytes of a byte-level vocabulary as the characters that they stand for."""
        return self.tokens(ids)

    @abstractmethod
    def _encode(self, texts: Sequence[str]) -> Ragged:
        """Ids of plain texts."""

    @abstractmethod
    def _encode_spans(self, texts: Sequence[str]) -> Spans:
        """Ids of plain texts, and the characters that each token comes from."""

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Ids of each text, without special tokens at its ends."""
        rows = self._rows(texts)
        if rows is None:
            return self._encode(texts)
        pieces = [piece for row in rows for piece in row]
        ids = self._encode([piece.text for piece in pieces if piece.special < 0])
        joined, _ = _with_special(pieces, ids)
        return Ragged(joined.values, joined.offsets[offsets(np.array([len(row) for row in rows], np.int64))])

    def encode_spans(self, texts: Sequence[str]) -> Spans:
        """Ids of each text, and the characters of the text that each token comes from."""
        rows = self._rows(texts)
        if rows is None:
            return self._encode_spans(texts)
        pieces = [piece for row in rows for piece in row]
        spans = self._encode_spans([piece.text for piece in pieces if piece.special < 0])
        joined, plain = _with_special(pieces, spans.ids)
        begins = np.array([piece.start for piece in pieces], np.int64)
        ends = begins + [len(piece.text) for piece in pieces]
        starts, stops = np.repeat(begins, joined.lengths), np.repeat(ends, joined.lengths)
        stops[plain] = starts[plain] + spans.ends
        starts[plain] += spans.starts
        bounds = joined.offsets[offsets(np.array([len(row) for row in rows], np.int64))]
        return Spans(Ragged(joined.values, bounds), starts, stops)

    def words(self, texts: Sequence[str]) -> np.ndarray | None:
        """The number of words of each text, and the number of words not in the tokenizer's dictionary: (N, 2).

        None for a tokenizer without a dictionary.
        """
        return None

    def _rows(self, texts: Sequence[str]) -> list[list[Piece]] | None:
        """The pieces of each text; None if each text is one plain piece."""
        names = re.compile("|".join(map(re.escape, self.special))) if self.special else None
        if all(len(text) <= MAX_CHARACTERS and not (names and names.search(text)) for text in texts):
            return None
        return [list(_pieces(text, names, self.special)) for text in texts]


def _pieces(text: str, names: re.Pattern[str] | None, ids: Mapping[str, int]) -> Iterator[Piece]:
    at = 0
    for match in names.finditer(text) if names else ():
        yield from _plain(text, at, match.start())
        yield Piece(match.start(), match.group(), ids[match.group()])
        at = match.end()
    yield from _plain(text, at, len(text))


def plain(text: str) -> list[str]:
    """A text as pieces of at most MAX_CHARACTERS."""
    return [piece.text for piece in _plain(text, 0, len(text))]


def _plain(text: str, start: int, end: int) -> Iterator[Piece]:
    """Pieces of text[start:end] of at most MAX_CHARACTERS."""
    while end - start > MAX_CHARACTERS:
        half, full = start + MAX_CHARACTERS // 2, start + MAX_CHARACTERS
        places = ([match.start() for match in cut.finditer(text, half, full)] for cut in CUTS)
        cut = next(filter(None, places), [full])[-1]
        yield Piece(start, text[start:cut], -1)
        start = cut
    if end > start:
        yield Piece(start, text[start:end], -1)


def _with_special(pieces: Sequence[Piece], ids: Ragged) -> tuple[Ragged, np.ndarray]:
    """The ids of all pieces, made from the ids of the plain pieces, and the positions of the plain pieces' ids."""
    special = np.array([piece.special for piece in pieces], np.int64)
    lengths = np.ones(len(pieces), np.int64)
    lengths[special < 0] = ids.lengths
    bounds = offsets(lengths)
    values = np.zeros(bounds[-1], np.uint32)
    values[bounds[:-1][special >= 0]] = special[special >= 0]
    plain = positions(bounds[:-1][special < 0], ids.lengths)
    values[plain] = ids.values
    return Ragged(values, bounds), plain
