"""The base of the tokenizers that run inside the `tokenizers` library, on every core."""

import json
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Backend
from tokenizers import models
from tokenizers.decoders import ByteLevel

from pipelines.core import json_file
from pipelines.core.errors import InputError
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.ragged import Ragged, Spans, ragged
from pipelines.text.chunks import InPieces
from pipelines.text.protocol import CONFIG, Specials, Tokenizer

FILE = "tokenizer.json"
# the special tokens of BERT's input, and their usual names, for folders that do not name them
NAMES = {
    "pad": ("[PAD]", "<pad>"),
    "unk": ("[UNK]", "<unk>"),
    "cls": ("[CLS]", "<s>", "<cls>"),
    "sep": ("[SEP]", "</s>", "<sep>"),
    "mask": ("[MASK]", "<mask>"),
}


class BackendTokenizer(InPieces):
    """A `tokenizers` pipeline, with the ids of its special tokens as attributes."""

    threaded = True

    def __init__(self, name: str, backend: Backend, specials: Specials, **about: str) -> None:
        self.name, self.backend, self._about = name, backend, about
        self.vocab_size = backend.get_vocab_size()
        self.middle = 2 if name == "bpe" else 1
        self.marks_spaces = not isinstance(backend.model, models.WordPiece)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = specials

    def _encode(self, texts: Sequence[str]) -> Ragged:
        rows = self.backend.encode_batch_fast(list(texts), add_special_tokens=False)
        return ragged([row.ids for row in rows])

    def _encode_spans(self, texts: Sequence[str]) -> Spans:
        rows = self.backend.encode_batch(list(texts), add_special_tokens=False)
        flat = np.array([place for row in rows for place in row.offsets], np.int64).reshape(-1, 2)
        return Spans(ragged([row.ids for row in rows]), flat[:, 0], flat[:, 1])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces with these ids."""
        return [self.backend.id_to_token(int(i)) or "[UNK]" for i in ids]

    def texts(self, ids: Sequence[int]) -> list[str]:
        """The pieces with these ids, the bytes of a byte-level vocabulary as the characters that they stand for."""
        decoder, pieces = self.backend.decoder, self.tokens(ids)
        return [decoder.decode([piece]) for piece in pieces] if isinstance(decoder, ByteLevel) else pieces

    def about(self) -> dict[str, str]:
        """Name and versions, for provenance."""
        return {"name": self.name, **self._about, "tokenizers": version("tokenizers")}


def write(backend: Backend, folder: Path, kind: str, parts: dict[str, str], more: dict[str, Any]) -> None:
    """Write tokenizer.json, and a tokenizer_config.json that transformers' AutoTokenizer reads."""
    backend.save(str(folder / FILE))
    config = {"tokenizer_class": kind, **{f"{part}_token": token for part, token in parts.items()}, **more}
    text = json.dumps(config, ensure_ascii=False, indent=1, sort_keys=True)
    (folder / CONFIG).write_text(text + "\n", encoding="utf-8")


def write_special_tokens(folder: Path, loaded: Tokenizer) -> None:
    """Let transformers add the special tokens as `encoding.sequence.join` does; the characters of the tokens stay."""
    settings = json_file.mapping(folder / FILE)
    cls, sep = loaded.tokens([loaded.cls_id, loaded.sep_id])
    start, first, end = _special(cls, 0), _special(sep, 0), _special(sep, 1)
    texts = [{"Sequence": {"id": name, "type_id": number}} for number, name in enumerate("AB")]
    template = {
        "type": "TemplateProcessing",
        "single": [start, texts[0], first],
        "pair": [start, texts[0], first, *[end] * (loaded.middle - 1), texts[1], end],
        "special_tokens": {
            token: {"id": token, "ids": [number], "tokens": [token]}
            for token, number in ((cls, loaded.cls_id), (sep, loaded.sep_id))
        },
    }
    steps = [*_trimming(settings.get("post_processor")), template]
    settings["post_processor"] = {"type": "Sequence", "processors": steps} if len(steps) > 1 else template
    (folder / FILE).write_text(json.dumps(settings, ensure_ascii=False, indent=2), encoding="utf-8")


def _special(token: str, type_id: int) -> dict[str, Any]:
    return {"SpecialToken": {"id": token, "type_id": type_id}}


def _trimming(post: Any) -> list[dict[str, Any]]:
    """The steps of a post-processor that take white space from the characters of a token."""
    steps = post["processors"] if post and post["type"] == "Sequence" else [post] if post else []
    settings = ("add_prefix_space", "trim_offsets")
    return [
        {"type": "ByteLevel", "use_regex": True, **{name: step[name] for name in settings}}
        for step in steps
        if step["type"] in ("ByteLevel", "RobertaProcessing")
    ]


def read(name: str, folder: OpenedFolder) -> BackendTokenizer:
    """The tokenizer of a folder with a tokenizer.json; its own truncation and padding are switched off."""
    if not (folder / FILE).is_file():
        raise InputError(f"{folder}: no {FILE}; {name} reads a tokenizer from it")
    try:
        backend = Backend.from_file(str(folder / FILE))
    except Exception as error:  # the library raises nothing narrower
        raise InputError(f"{folder / FILE}: not a tokenizer: {error}") from None
    backend.no_truncation()
    backend.no_padding()
    backend.encode_special_tokens = True  # reads their names as plain text; `InPieces` finds special tokens
    vocab, tokens = backend.get_vocab(), _given(folder)
    ids = {}
    for part, names in NAMES.items():
        token = tokens.get(f"{part}_token") or next((n for n in names if n in vocab), names[0])
        if token not in vocab:
            raise InputError(f"{folder / FILE}: no {part} token {token!r} in its vocabulary")
        ids[part] = vocab[token]
    return BackendTokenizer(name, backend, Specials(**ids))


def _given(folder: OpenedFolder) -> dict[str, str]:
    """The special tokens that the folder's configs name, as texts."""
    path = folder / "special_tokens_map.json"
    config = {**(json_file.mapping(path) if path.is_file() else {}), **folder.tokenizer_config}
    named = {key: value for key, value in config.items() if value and key.endswith("_token")}
    return {key: value["content"] if isinstance(value, dict) else value for key, value in named.items()}
