"""The interface of all tokenizers, and the files that a tokenizer's folder holds."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from pipelines.core import json_file
from pipelines.core.errors import InputError, shown
from pipelines.core.ragged import Ragged, Spans

CONFIG = "tokenizer_config.json"
MECAB_CLASS = "BertJapaneseTokenizer"  # transformers' class of tokenizers with MeCab
# a folder holds some of these
FILES = (CONFIG, "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "special_tokens_map.json")
# the keys of a folder's config that are read -> their types
READ: dict[str, tuple[type, ...]] = {
    "tokenizer_class": (str,),
    "word_tokenizer_type": (str,),
    "subword_tokenizer_type": (str,),
    "mecab_kwargs": (dict,),
    "do_lower_case": (bool,),
    "model_max_length": (int, float),
    "bertline": (dict,),
    "bertline_tokenizer": (str,),
    **dict.fromkeys(("pad_token", "unk_token", "cls_token", "sep_token", "mask_token"), (str, dict)),
}


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

    def about(self) -> dict[str, str]:
        """Name, dictionary and versions, for provenance."""


def read_config(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json of a folder. Raises InputError if there is none."""
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(f"{folder}: no {CONFIG}; the folder has no tokenizer")
    config = json_file.mapping(path)
    for key, kinds in READ.items():
        if config.get(key) is not None and not isinstance(config[key], kinds):
            raise InputError(f"{path}: {key} is {shown(config[key])}; {kinds[0].__name__} is expected")
    return config
