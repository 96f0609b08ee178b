"""Tokenizers that run inside the `tokenizers` library, on every core: what they share."""

from collections.abc import Sequence
from importlib.metadata import version
from itertools import chain

import numpy as np
from tokenizers import Encoding
from tokenizers import Tokenizer as Backend

from pipelines.core.ragged import Ragged, Spans, offsets
from pipelines.text.tokenizer import Specials


class BackendTokenizer:
    """A `tokenizers` pipeline, with the ids of its special tokens as attributes."""

    threaded = True

    def __init__(self, name: str, backend: Backend, specials: Specials, **about: str) -> None:
        self.name, self.backend, self._about = name, backend, about
        self.vocab_size = backend.get_vocab_size()
        self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id = specials

    def encode(self, texts: Sequence[str]) -> Ragged:
        """Ids of each text, without special tokens."""
        return _ids(self.backend.encode_batch_fast(list(texts), add_special_tokens=False))

    def encode_spans(self, texts: Sequence[str]) -> Spans:
        """Ids of each text, and the characters of the text that each token comes from."""
        rows = self.backend.encode_batch(list(texts), add_special_tokens=False)
        flat = np.array([place for row in rows for place in row.offsets], np.int64).reshape(-1, 2)
        return Spans(_ids(rows), flat[:, 0], flat[:, 1])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The pieces that ids stand for."""
        return [self.backend.id_to_token(int(i)) or "[UNK]" for i in ids]

    def about(self) -> dict[str, str]:
        """Name and versions, for provenance."""
        return {"name": self.name, **self._about, "tokenizers": version("tokenizers")}


def _ids(rows: Sequence[Encoding]) -> Ragged:
    lists = [row.ids for row in rows]
    lengths = np.fromiter(map(len, lists), np.int64, len(lists))
    return Ragged(np.fromiter(chain.from_iterable(lists), np.uint32, int(lengths.sum())), offsets(lengths))
