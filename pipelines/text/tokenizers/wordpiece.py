"""wordpiece: BERT's own, cased or uncased (Devlin et al. 2018)."""

from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path

import numpy as np
from tokenizers import Tokenizer as Backend
from tokenizers import normalizers, pre_tokenizers

from pipelines.core.params import Section
from pipelines.core.ragged import Ragged, offsets
from pipelines.text import tokenizer, vocab

NAME = "wordpiece"


class Params(Section):
    lowercase: bool = True  # and without accents, as BERT's uncased models are


def train(texts: Callable[[], Iterator[str]], folder: Path, size: int, params: Params) -> None:
    """Learn a vocabulary and write the tokenizer's files into `folder`."""
    learned = vocab.learn(_backend({token: i for i, token in enumerate(vocab.SPECIAL)}, params.lowercase), texts, size)
    vocab.write(folder, learned, {"tokenizer_class": "BertTokenizer", "do_lower_case": params.lowercase})


def load(folder: Path) -> "WordPiece":
    lowercase = bool(tokenizer.read_config(folder).get("do_lower_case", True))
    return WordPiece(vocab.read(folder), lowercase)


class WordPiece:
    """Whitespace and punctuation, then longest match first, all inside `tokenizers`, on every core."""

    name = NAME

    def __init__(self, pieces: dict[str, int], lowercase: bool) -> None:
        self.vocab_size = len(pieces)
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = (pieces[t] for t in vocab.SPECIAL)
        self._backend = _backend(pieces, lowercase)
        self._lowercase = lowercase

    def encode(self, texts: Sequence[str]) -> Ragged:
        rows = [encoding.ids for encoding in self._backend.encode_batch_fast(list(texts), add_special_tokens=False)]
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        values = np.fromiter((i for row in rows for i in row), np.uint32, int(lengths.sum()))
        return Ragged(values, offsets(lengths))

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._backend.id_to_token(int(i)) or "[UNK]" for i in ids]

    def about(self) -> dict[str, str]:
        return {"name": NAME, "lowercase": str(self._lowercase).lower(), "tokenizers": version("tokenizers")}


def _backend(pieces: dict[str, int], lowercase: bool) -> Backend:
    backend = Backend(vocab.wordpiece(pieces))
    backend.normalizer = normalizers.BertNormalizer(lowercase=lowercase)
    backend.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return backend
