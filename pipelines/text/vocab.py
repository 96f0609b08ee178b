"""vocab.txt, one WordPiece a line, and how one is learned."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, trainers

from pipelines.core.errors import InputError

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FILE = "vocab.txt"


def read(folder: Path) -> dict[str, int]:
    """Pieces to their ids, from vocab.txt."""
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"{folder}: no {FILE}; a WordPiece tokenizer's folder holds one")
    try:
        pieces = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8") from None
    if pieces and not pieces[-1]:
        pieces.pop()
    vocab = {piece.rstrip("\r"): i for i, piece in enumerate(pieces)}
    for token in SPECIAL:
        if token not in vocab:
            raise InputError(f"{path}: no {token} in it; a BERT vocabulary has {' '.join(SPECIAL)}")
    return vocab


def write(folder: Path, vocab: dict[str, int], config: dict[str, Any]) -> None:
    """vocab.txt and a tokenizer_config.json that transformers' AutoTokenizer reads."""
    pieces = sorted(vocab, key=vocab.__getitem__)
    (folder / FILE).write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    text = json.dumps(config, ensure_ascii=False, indent=1, sort_keys=True)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")


def learn(backend: Backend, texts: Iterator[str], size: int) -> dict[str, int]:
    """A WordPiece vocabulary of at most `size` pieces, the special tokens first.

    `tokenizers` learns it as BPE does, by the most frequent pair (its WordPieceTrainer says so itself).
    """
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=list(SPECIAL), show_progress=False)
    backend.train_from_iterator(texts, trainer)
    vocab = backend.get_vocab()
    if len(vocab) <= len(SPECIAL):
        raise InputError("build_vocab: no text to learn a vocabulary from")
    return vocab


def wordpiece(vocab: dict[str, int]) -> models.WordPiece:
    """Longest match first over `vocab`, as BERT has it."""
    return models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100)
