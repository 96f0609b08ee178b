"""Batches of sequences with two neighbouring segments of a document, for the objectives that compare them."""

import numpy as np
import torch

from pipelines.core import seeding
from pipelines.core.ragged import Ragged, offsets
from pipelines.models.batch import Batch
from pipelines.pretraining import segments
from pipelines.pretraining.packing import TextBatches, TooShortError
from pipelines.training.batches import Encoded


class SegmentBatches(TextBatches):
    """Sequences [CLS] A [SEP] B [SEP] of up to `length` tokens (T), and the number of their document (B,).

    A document is cut into pieces of length - 3 tokens; the last piece holds the rest. Each piece is divided into A and
    B at a random place, a new one in every epoch unless `repack` is off. Only a document's last piece is shorter than
    the others and needs padding; `padding` is the share of padding if all pieces are padded to the full length.
    """

    def _cut(self) -> None:
        self.pieces, self.documents = _pieces(self.data, self.length - 3)
        self.sequences = len(self.documents)
        if not self.sequences:
            raise TooShortError("no document has two tokens", "there is nothing to divide into two segments")
        self.padding = 1 - float((self.pieces.lengths + 3).sum()) / (self.sequences * self.length)

    def _draw(self, epoch: int) -> np.ndarray:
        return seeding.generator(self.seed, "segments", epoch).permutation(self.sequences)

    def _join(self, chosen: np.ndarray, epoch: int) -> Batch:
        first, second = [], []
        for row in chosen:
            text = self.pieces.values[self.pieces.offsets[row] : self.pieces.offsets[row + 1]]
            draw = seeding.generator(self.seed, "middle", row, epoch if self.repack else 0)
            middle = int(draw.integers(1, len(text)))
            first.append(text[:middle])
            second.append(text[middle:])
        return segments.join(first, second, self.tokenizer) | {"document": torch.from_numpy(self.documents[chosen])}


def _pieces(data: Encoded, size: int) -> tuple[Ragged, np.ndarray]:
    """Pieces of at most `size` tokens and at least two, and the number of each piece's document."""
    counts = -(-data.lengths // size)
    documents = np.repeat(np.arange(len(data)), counts)
    lengths = np.full(len(documents), size)
    last = np.cumsum(counts)[counts > 0] - 1
    lengths[last] = data.lengths[counts > 0] - (counts[counts > 0] - 1) * size
    return Ragged(data.ids, offsets(lengths)).take(np.flatnonzero(lengths > 1)), documents[lengths > 1]
