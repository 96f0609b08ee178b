"""A tokenizer with only some of its pieces, for a model that needs only these.

A text whose pieces are all kept is still split into the same pieces:

- WordPiece takes the longest piece that fits; with fewer pieces there is no longer one.
- Single characters can be split in one way only.
- The unigram model takes the most probable split. Removed pieces only remove other splits, and all single characters
  are kept, so that no new unknown token appears.
- BPE joins neighbours in the order of its merges; all merges that lead to a kept piece are kept.

A word that was [UNK] may become pieces if the long piece that led WordPiece to a dead end was removed.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from pipelines.core import json_file, paths
from pipelines.core.errors import UsageError, choices
from pipelines.core.opened_folder import OpenedFolder
from pipelines.text import backend, protocol, tokenizer, vocab
from pipelines.text.protocol import Tokenizer
from pipelines.text.tokenizers import wordpiece

WORDPIECES = ("wordpiece", "mecab_wordpiece", "mecab_character")  # tokenizers whose folder has a vocab.txt
KINDS = (*WORDPIECES, "bpe", "unigram")
MARKS = ("##", "▁")  # the prefix of a piece inside a word, and of a piece that begins a word


def check(name: str, characters: bool, where: str) -> None:
    """Raise UsageError, which begins with `where`, if this tokenizer cannot be shortened, or needs its characters."""
    if name not in KINDS:
        raise UsageError(f"{where}: {choices('tokenizer that can be shortened', name, KINDS)}")
    if name in ("bpe", "unigram") and not characters:
        raise UsageError(f"{where}: characters: false: {name} needs its characters to split other words as before")


def staying(loaded: Tokenizer, used: Iterable[int], characters: bool, source: OpenedFolder) -> list[int]:
    """The sorted ids to keep: `used`, special tokens, single characters if `characters`, and pieces that they need."""
    stay = {int(i) for i in used}
    stay |= {loaded.pad_id, loaded.unk_id, loaded.cls_id, loaded.sep_id, loaded.mask_id, *loaded.special.values()}
    pieces = loaded.tokens(range(loaded.vocab_size))
    if characters:
        stay |= {i for i, piece in enumerate(pieces) if len(_bare(piece)) <= 1}
    if loaded.name in ("bpe", "unigram"):
        settings = json_file.mapping(source / backend.FILE)
        stay |= {int(token["id"]) for token in settings["added_tokens"]}
        if loaded.name == "bpe":
            stay |= _needed(settings["model"], {pieces[i] for i in stay})
    return sorted(stay)


def _bare(piece: str) -> str:
    for mark in MARKS:
        piece = piece.removeprefix(mark)
    return piece


def _needed(model: dict[str, Any], pieces: set[str]) -> set[int]:
    """The ids of all pieces from which merges build `pieces`."""
    parents: dict[str, list[tuple[str, str]]] = {}
    for left, right in map(_pair, model["merges"]):
        parents.setdefault(left + right, []).append((left, right))
    needed, todo = set(pieces), list(pieces)
    while todo:
        for pair in parents.get(todo.pop(), ()):
            todo += set(pair) - needed
            needed |= set(pair)
    return {model["vocab"][piece] for piece in needed if piece in model["vocab"]}


def _pair(merge: str | list[str]) -> tuple[str, str]:
    left, right = merge.split(" ") if isinstance(merge, str) else merge
    return left, right


def write(loaded: Tokenizer, source: OpenedFolder, target: Path, stay: list[int]) -> None:
    """Write the tokenizer `loaded` from `source`, with only the sorted ids `stay`, into the new folder `target`."""
    new = {old: i for i, old in enumerate(stay)}
    target.mkdir(parents=True)
    config, used = source.tokenizer_config, tokenizer.used(source)
    if loaded.name in WORDPIECES:
        pieces = {piece: new[i] for piece, i in vocab.read(source.path).items() if i in new}
        vocab.write(target, pieces, _without_print(config))
        if (source / backend.FILE).is_file():
            wordpiece.whole(target).save(str(target / backend.FILE))
    else:
        settings = _SHORTENED[loaded.name](json_file.mapping(source / backend.FILE), new)
        (target / backend.FILE).write_text(json.dumps(settings, ensure_ascii=False, indent=2), encoding="utf-8")
        _config(target, _without_print(config))
    if (source / "special_tokens_map.json").is_file():
        paths.copy(source.path, "special_tokens_map.json", target / "special_tokens_map.json")
    if used.get("fingerprint"):  # the fingerprint of the old tokenizer is replaced
        used = used | {"fingerprint": tokenizer.fingerprint(tokenizer.load(target))}
        _config(target, {**config, tokenizer.OURS: used})


def _without_print(config: Mapping[str, Any]) -> dict[str, Any]:
    used = {key: value for key, value in config.get(tokenizer.OURS, {}).items() if key != "fingerprint"}
    return {**config, **({tokenizer.OURS: used} if used else {})}


def _config(target: Path, config: dict[str, Any]) -> None:
    text = json.dumps(config, ensure_ascii=False, indent=1, sort_keys=True)
    (target / protocol.CONFIG).write_text(text + "\n", encoding="utf-8")


def _bpe(settings: dict[str, Any], new: dict[int, int]) -> dict[str, Any]:
    model = settings["model"]
    vocabulary = {piece: new[i] for piece, i in model["vocab"].items() if i in new}
    pairs = [merge for merge in model["merges"] if "".join(_pair(merge)) in vocabulary]
    merges = [merge for merge in pairs if all(part in vocabulary for part in _pair(merge))]
    return _around(settings, new) | {"model": model | {"vocab": vocabulary, "merges": merges}}


def _unigram(settings: dict[str, Any], new: dict[int, int]) -> dict[str, Any]:
    model = settings["model"]
    entries = [entry for i, entry in enumerate(model["vocab"]) if i in new]
    return _around(settings, new) | {"model": model | {"vocab": entries, "unk_id": new[model["unk_id"]]}}


def _around(settings: dict[str, Any], new: dict[int, int]) -> dict[str, Any]:
    """The settings around the model with the new ids, without truncation and padding, which bertline ignores."""
    added = [token | {"id": new[token["id"]]} for token in settings["added_tokens"]]
    post = _renumbered(settings.get("post_processor"), new)
    return settings | {"added_tokens": added, "post_processor": post, "truncation": None, "padding": None}


def _renumbered(post: Any, new: dict[int, int]) -> Any:
    """A post-processor with the new ids; it adds special tokens for transformers."""
    if not isinstance(post, dict):
        return post
    renumbered = dict(post)
    for part in ("sep", "cls"):  # BertProcessing and RobertaProcessing: [token, id]
        if part in renumbered:
            renumbered[part] = [renumbered[part][0], new[renumbered[part][1]]]
    if isinstance(renumbered.get("special_tokens"), dict):  # TemplateProcessing
        tokens = renumbered["special_tokens"].items()
        renumbered["special_tokens"] = {name: token | {"ids": [new[i] for i in token["ids"]]} for name, token in tokens}
    if "processors" in renumbered:  # Sequence
        renumbered["processors"] = [_renumbered(processor, new) for processor in renumbered["processors"]]
    return renumbered


_SHORTENED: dict[str, Callable[[dict[str, Any], dict[int, int]], dict[str, Any]]] = {"bpe": _bpe, "unigram": _unigram}
