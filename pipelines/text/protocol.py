"""The interface of all tokenizers, and the files that a tokenizer's folder holds."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from pipelines.core.opened_folder import TOKENIZER_CONFIG as CONFIG
from pipelines.core.ragged import Ragged, Spans

MECAB_CLASS = "BertJapaneseTokenizer"  # transformers' class of tokenizers with MeCab
# a folder holds some of these
FILES = (CONFIG, "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "special_tokens_map.json")


class Specials(NamedTuple):
    """Ids of the special tokens of BERT's input; a vocabulary must have all of them."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


class Tokenizer(Protocol):
    """The interface of tokenizers, which turn text into ids. The ids of special tokens are attributes."""

    name: str  # name of the plugin
    threaded: bool  # whether `encode` uses every core by itself
    vocab_size: int
    middle: int  # number of separators between the texts of a pair
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    marks_spaces: bool  # whether a piece with a space before it is marked; in WordPiece, one inside a word is
    special: Mapping[str, int]  # names read as special tokens in a text -> ids; empty: all is plain text

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Ids of each text, without special tokens at its ends."""

    def encode_spans(self, texts: Sequence[str]) -> Spans:
        """Ids of each text, and the characters of the text that each token comes from."""

    def words(self, texts: Sequence[str]) -> np.ndarray | None:
        """The number of words of each text, and the number of words not in the dictionary: (N, 2).

        None for a tokenizer without a dictionary.
        """

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces with these ids."""

    def texts(self, ids: Sequence[int]) -> list[str]:
        """The pieces with these ids, the bytes of a byte-level vocabulary as the characters that they stand for."""

    def about(self) -> dict[str, str]:
        """Name, dictionary and versions, for provenance."""
