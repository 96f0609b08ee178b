"""A tokenizer of letters, and random models that know its ids."""

from typing import Any

import numpy as np
import torch

from pipelines.checkpoints import pretrained
from pipelines.core.ragged import offsets
from pipelines.pretraining import segments
from pipelines.training.batches import Encoded
from tests.support import tiny

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij", *(f"##{c}" for c in "klmnopqrst")]


class Tokenizer:
    """A tokenizer of, by default, five special tokens, ten words and ten continuation pieces (##)."""

    pad_id, unk_id, cls_id, sep_id, mask_id = range(5)

    def __init__(self, pieces: list[str] = PIECES, marks_spaces: bool = False) -> None:
        self.pieces, self.vocab_size, self.marks_spaces = pieces, len(pieces), marks_spaces

    def tokens(self, ids: Any) -> list[str]:
        return [self.pieces[i] for i in ids]


TOKENIZER = Tokenizer()


def model(family: str, auto: Any) -> torch.nn.Module:
    """A tiny model of a family, of transformers' class `auto`, in eval mode."""
    return pretrained.start(tiny.SHAPES / f"{family}.json", tiny.SMALL[family], auto, TOKENIZER, seed=1).eval()


def sentences(rows: int = 200, length: int = 64) -> dict[str, torch.Tensor]:
    ids = np.random.default_rng(0).integers(5, TOKENIZER.vocab_size, (rows, length))
    ids[:, 0], ids[:, -1] = TOKENIZER.cls_id, TOKENIZER.sep_id
    return {"input_ids": torch.from_numpy(ids)}


def documents(rows: int = 400) -> dict[str, torch.Tensor]:
    """Rows of two segments. Each segment of each document has its own letter, so it can be recognized."""
    rng = np.random.default_rng(2)
    number = rng.integers(0, 5, rows)
    sizes = rng.integers(2, 9, (rows, 2))
    first = [np.full(a, 5 + 2 * d) for d, (a, _) in zip(number, sizes, strict=True)]
    second = [np.full(b, 6 + 2 * d) for d, (_, b) in zip(number, sizes, strict=True)]
    return segments.join(first, second, TOKENIZER) | {"document": torch.from_numpy(number)}


def text(*lengths: int) -> Encoded:
    """Documents whose token ids encode their position: 1,000 times the document's number plus the token's index."""
    ids = np.concatenate([1000 * (d + 1) + np.arange(n) for d, n in enumerate(lengths)])
    return Encoded(ids.astype(np.uint16), offsets(np.array(lengths)))
