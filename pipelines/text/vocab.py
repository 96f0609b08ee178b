"""Read, write and learn a vocab.txt with one WordPiece per line."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer as Backend
from tokenizers import models, trainers

from pipelines.core.errors import InputError, shown
from pipelines.text.protocol import Specials

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
FILE = "vocab.txt"


def read(folder: Path) -> dict[str, int]:
    """The pieces of vocab.txt -> their ids."""
    path = folder / FILE
    if not path.is_file():
        raise InputError(f"{folder}: no {FILE}; a WordPiece tokenizer's folder holds one")
    try:
        pieces = path.read_text(encoding="utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte {error.start} is not UTF-8") from None
    if pieces and not pieces[-1]:
        pieces.pop()
    vocab: dict[str, int] = {}
    for i, line in enumerate(pieces):
        piece = line.rstrip("\r")
        if piece in vocab:
            raise InputError(f"{path}: line {i + 1}: {shown(piece)} is on line {vocab[piece] + 1} too; was it changed?")
        vocab[piece] = i
    for token in SPECIAL:
        if token not in vocab:
            raise InputError(f"{path}: no {token} in it; a BERT vocabulary has {' '.join(SPECIAL)}")
    return vocab


def specials(pieces: dict[str, int]) -> Specials:
    """The ids of BERT's special tokens."""
    return Specials(*(pieces[token] for token in SPECIAL))


def write(folder: Path, vocab: dict[str, int], config: dict[str, Any]) -> None:
    """Write vocab.txt, and a tokenizer_config.json that transformers' AutoTokenizer reads."""
    pieces = sorted(vocab, key=vocab.__getitem__)
    (folder / FILE).write_text("".join(f"{piece}\n" for piece in pieces), encoding="utf-8")
    text = json.dumps(config, ensure_ascii=False, indent=1, sort_keys=True)
    (folder / "tokenizer_config.json").write_text(text + "\n", encoding="utf-8")


def learn(backend: Backend, texts: Callable[[], Iterator[str]], size: int) -> dict[str, int]:
    """A WordPiece vocabulary of at most `size` pieces, special tokens first; the same text gives the same vocabulary.

    `tokenizers` learns it like BPE, by the most frequent pair. By default it numbers the letters inside words in the
    order of a hash table, and these numbers break ties between pairs. Here it gets the letters in sorted order, which
    takes a second pass over the text: each call of `texts` starts from the beginning.
    """
    words: set[str] = set()
    for text in texts():
        normal = backend.normalizer.normalize_str(text) if backend.normalizer else text
        words.update(word for word, _ in backend.pre_tokenizer.pre_tokenize_str(normal))
    if not words:
        raise InputError("build_vocab: no text to learn a vocabulary from")
    inside = sorted({f"##{letter}" for word in words for letter in word[1:]})
    if size < len(SPECIAL) + len(inside):
        raise InputError(f"build_vocab: size {size} is less than the {len(inside)} letters inside the text's words")
    trainer = trainers.WordPieceTrainer(vocab_size=size, special_tokens=[*SPECIAL, *inside], show_progress=False)
    backend.train_from_iterator(texts(), trainer)
    return backend.get_vocab()


def wordpiece(vocab: dict[str, int]) -> models.WordPiece:
    """A WordPiece model over `vocab`: longest match first, as in BERT."""
    return models.WordPiece(vocab, unk_token="[UNK]", max_input_chars_per_word=100)
