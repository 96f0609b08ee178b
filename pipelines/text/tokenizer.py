"""What a tokenizer is, and the right one for any folder with tokenizer files."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from pipelines.core import json_file, plugins
from pipelines.core.errors import InputError, choices
from pipelines.core.ragged import Ragged, Spans

CONFIG = "tokenizer_config.json"
# those that are there make the tokenizer
FILES = (CONFIG, "tokenizer.json", "vocab.txt", "vocab.json", "merges.txt", "special_tokens_map.json")
# tokenizer_class in the folder's config, without its Fast -> the plugin that reads it
CLASSES = {
    "BertTokenizer": "wordpiece",
    "DistilBertTokenizer": "wordpiece",
    "ElectraTokenizer": "wordpiece",
    "MobileBertTokenizer": "wordpiece",
    "RobertaTokenizer": "bpe",
    "AlbertTokenizer": "unigram",
    "XLNetTokenizer": "unigram",
}
JAPANESE = {"wordpiece": "mecab_wordpiece", "character": "mecab_character"}  # BertJapaneseTokenizer, by its subwords


class Specials(NamedTuple):
    """Ids of the special tokens, by their part in BERT's input; a vocabulary without one of them is not loaded."""

    pad: int
    unk: int
    cls: int
    sep: int
    mask: int


class Tokenizer(Protocol):
    """Text to ids. The ids of special tokens are attributes; their names inside a text are text like any other."""

    name: str  # the plugin's
    threaded: bool  # whether `encode` uses every core by itself
    vocab_size: int
    middle: int  # separators between the texts of a pair
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Ids of each text, without special tokens."""

    def encode_spans(self, texts: Sequence[str]) -> Spans:
        """Ids of each text, and the characters of the text that each token comes from."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces that ids stand for."""

    def about(self) -> dict[str, str]:
        """Name, dictionary and versions, for provenance."""


def load(folder: Path) -> Tokenizer:
    """The tokenizer whose files are in `folder`: one of ours, or a downloaded Hugging Face folder."""
    return plugins.load("pipelines.text.tokenizers", _plugin(folder)).load(folder)


def _plugin(folder: Path) -> str:
    config = read_config(folder)
    name = str(config.get("tokenizer_class", "BertTokenizer")).removesuffix("Fast")
    if name == "BertJapaneseTokenizer":
        subwords = config.get("subword_tokenizer_type", "wordpiece")
        if subwords not in JAPANESE:
            raise InputError(f"{folder / CONFIG}: {choices('subword_tokenizer_type', subwords, JAPANESE)}")
        return JAPANESE[subwords]
    plugin = config.get("bertline_tokenizer") or CLASSES.get(name)
    if plugin == "wordpiece" and (folder / "vocab.txt").is_file():
        return plugin
    if (folder / "tokenizer.json").is_file():
        return plugin if plugin and plugin != "wordpiece" else "hf"
    if plugin:
        needed = "vocab.txt" if plugin == "wordpiece" else "tokenizer.json"
        raise InputError(f"{folder}: no {needed}; a folder of {name} holds one")
    raise InputError(f"{folder / CONFIG}: {choices('tokenizer_class', name, [*CLASSES, 'BertJapaneseTokenizer'])}")


def read_config(folder: Path) -> dict[str, Any]:
    """tokenizer_config.json, or one sentence."""
    path = folder / CONFIG
    if not path.is_file():
        raise InputError(f"{folder}: no {CONFIG}; the folder has no tokenizer")
    return json_file.mapping(path)


def max_length(folder: Path) -> int | None:
    """The longest sequence that the folder's tokenizer is meant for, in tokens; None where none is stated."""
    length = read_config(folder).get("model_max_length")
    return int(length) if isinstance(length, int | float) and length < 1e6 else None


def positions(config: Mapping[str, Any]) -> int | None:
    """The longest sequence in tokens that an encoder of this config takes; None where it states none.

    RoBERTa counts positions from its padding's id on; XLNet's are relative, so any length goes.
    """
    found = config.get("max_position_embeddings")
    offset = (config.get("pad_token_id") or 0) + 1 if config.get("model_type") == "roberta" else 0
    return None if found is None or config.get("model_type") == "xlnet" else int(found) - offset


def encoder_config(folder: Path) -> dict[str, Any]:
    """config.json of the encoder beside the tokenizer, where it stands under a head of ours too; {} where there is none."""
    path = folder / "config.json"
    config = json_file.mapping(path) if path.is_file() else {}
    return config.get("encoder", config)
