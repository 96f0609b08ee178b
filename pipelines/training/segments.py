"""Two neighbouring segments of one document to a sequence, for the objectives that ask about them."""

import numpy as np
import torch

from pipelines.core import seeding
from pipelines.core.errors import InputError
from pipelines.core.ragged import Ragged, offsets
from pipelines.models import segments
from pipelines.models.batch import Batch
from pipelines.text.tokenizer import Tokenizer
from pipelines.training.batches import Encoded


class SegmentBatches:
    """Sequences [CLS] A [SEP] B [SEP] of up to `length` tokens (T), and the number of their document (B,).

    A document is cut into pieces of length - 3 tokens, the last one as long as is left; where a piece parts into A
    and B is drawn, anywhere but at its ends, and anew for every epoch unless `repack` is off. Only a document's last piece is shorter than the rest
    and costs padding.
    """

    def __init__(
        self,
        data: Encoded,
        length: int,
        batch_size: int,
        epochs: float,
        seed: int,
        tokenizer: Tokenizer,
        repack: bool = True,
    ) -> None:
        self.data, self.length, self.batch_size, self.seed, self.repack = data, length, batch_size, seed, repack
        self.tokenizer = tokenizer
        self.pieces, self.documents = _cut(data, length - 3)
        if not len(self.documents):
            raise InputError("no document has two tokens; there is nothing to part into two segments")
        self.steps_per_epoch = -(-len(self.documents) // batch_size)
        self.steps = max(1, round(epochs * self.steps_per_epoch))

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> Batch:
        epoch, place = divmod(step, self.steps_per_epoch)
        order = seeding.generator(self.seed, "segments", epoch).permutation(len(self.documents))
        rows = order[place * self.batch_size : (place + 1) * self.batch_size]
        first, second = [], []
        for row in rows:
            text = self.pieces.values[self.pieces.offsets[row] : self.pieces.offsets[row + 1]]
            draw = seeding.generator(self.seed, "middle", row, epoch if self.repack else 0)
            middle = int(draw.integers(1, len(text)))
            first.append(text[:middle])
            second.append(text[middle:])
        return segments.join(first, second, self.tokenizer) | {"document": torch.from_numpy(self.documents[rows])}

    @property
    def padding(self) -> float:
        """Share of tokens that are padding, where every sequence is padded to the full length."""
        return 1 - float((self.pieces.lengths + 3).sum()) / (len(self.documents) * self.length)

    def fingerprint(self) -> str:
        return (
            f"{self.data.fingerprint()} segments {self.length} {self.batch_size} {self.steps} {self.seed} {self.repack}"
        )


def _cut(data: Encoded, size: int) -> tuple[Ragged, np.ndarray]:
    """Pieces of at most `size` tokens and at least two, and the document that each is of."""
    counts = -(-data.lengths // size)
    documents = np.repeat(np.arange(len(data)), counts)
    lengths = np.full(len(documents), size)
    last = np.cumsum(counts)[counts > 0] - 1
    lengths[last] = data.lengths[counts > 0] - (counts[counts > 0] - 1) * size
    return Ragged(data.ids, offsets(lengths)).take(np.flatnonzero(lengths > 1)), documents[lengths > 1]
