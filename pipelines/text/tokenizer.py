"""Open the tokenizer of any folder with tokenizer files, and read the maximum length of its sequences."""

import hashlib
from collections.abc import Mapping
from typing import Any

from pipelines.core import plugins
from pipelines.core.errors import InputError, choices, shown
from pipelines.core.opened_folder import Folder, OpenedFolder
from pipelines.text.protocol import CONFIG, MECAB_CLASS, Tokenizer

# tokenizer_class in the folder's config, without the suffix Fast -> the plugin that reads it
CLASSES = {
    "BertTokenizer": "wordpiece",
    "DistilBertTokenizer": "wordpiece",
    "ElectraTokenizer": "wordpiece",
    "MobileBertTokenizer": "wordpiece",
    "RobertaTokenizer": "bpe",
    "AlbertTokenizer": "unigram",
    "XLNetTokenizer": "unigram",
}
JAPANESE = {"wordpiece": "mecab_wordpiece", "character": "mecab_character"}  # BertJapaneseTokenizer: subwords -> plugin


OURS = "bertline"  # in tokenizer_config.json: how `encode` used the tokenizer, for models trained on its ids
PROBE = "Ｂertの見出し、ﾃｽﾄ12.5％: It's naïve! 東京都で大雨が降った。\n"  # normalization changes some of it


def load(folder: Folder, special_tokens: str = "") -> Tokenizer:
    """The tokenizer whose files are in `folder`: one of ours, or a downloaded Hugging Face folder.

    Args:
        special_tokens: how the name of a special token in a text is read: "text" (plain text), "special", or "" for the
            folder's own setting. The default of a folder is "text", so that a text cannot control a model.
    """
    folder = OpenedFolder.of(folder)
    loaded: Tokenizer = plugins.load("pipelines.text.tokenizers", _plugin(folder)).load(folder)
    size = folder.encoder_config.get("vocab_size", loaded.vocab_size)
    if size != loaded.vocab_size:
        raise InputError(
            f"{folder}: its tokenizer has {loaded.vocab_size:,} entries, its config.json says {shown(size)}; "
            "was one of its files cut off or replaced?"
        )
    if used(folder).get("fingerprint", "") not in ("", fingerprint(loaded)):
        raise InputError(
            f"{folder}: its tokenizer gives other ids than in training; "
            "its files, or the dictionary or library that reads them, have changed"
        )
    if (special_tokens or used(folder).get("special_tokens")) == "special":
        ids = (loaded.pad_id, loaded.unk_id, loaded.cls_id, loaded.sep_id, loaded.mask_id)
        loaded.special = dict(zip(loaded.tokens(ids), ids, strict=True))
    return loaded


def fingerprint(loaded: Tokenizer) -> str:
    """A digest of a tokenizer's vocabulary and of its ids for PROBE, read as plain text."""
    pieces = "\n".join(loaded.tokens(range(loaded.vocab_size)))
    ids = " ".join(map(str, loaded.encode([PROBE]).values))
    return hashlib.sha256(f"{pieces}\n{ids}".encode()).hexdigest()


def used(folder: OpenedFolder) -> dict[str, Any]:
    """The record of how `encode` used the folder's tokenizer.

    It has special_tokens and fingerprint and, for kind span, stride and max_question. It is {} for a folder that
    `encode` has not written.
    """
    facts = folder.tokenizer_config.get(OURS, {})
    return facts if isinstance(facts, dict) else {}


def windows(folder: OpenedFolder) -> dict[str, int]:
    """The options of `encoding.span` with which the folder's model was trained; {} if they are not recorded."""
    return {name: int(value) for name, value in used(folder).items() if name in ("stride", "max_question")}


def _plugin(folder: OpenedFolder) -> str:
    config = folder.tokenizer_config
    name = str(config.get("tokenizer_class", "BertTokenizer")).removesuffix("Fast")
    if name == MECAB_CLASS:
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
        raise InputError(f"{folder}: no {needed}; {name} needs this file")
    raise InputError(f"{folder / CONFIG}: {choices('tokenizer_class', name, [*CLASSES, MECAB_CLASS])}")


def max_length(folder: OpenedFolder) -> int | None:
    """The maximum length of a sequence in tokens, from the folder's tokenizer; None if it has no limit."""
    length = folder.tokenizer_config.get("model_max_length")
    return int(length) if isinstance(length, int | float) and length < 1e6 else None


def positions(config: Mapping[str, Any]) -> int | None:
    """The maximum length of a sequence in tokens for an encoder of this config; None if it has no limit.

    RoBERTa's positions begin after the id of its padding; XLNet's are relative, so it takes any length.
    """
    count = config.get("max_position_embeddings")
    offset = (config.get("pad_token_id") or 0) + 1 if config.get("model_type") == "roberta" else 0
    return None if count is None or config.get("model_type") == "xlnet" else int(count) - offset
