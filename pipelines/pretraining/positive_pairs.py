"""Batches of positive pairs: two texts per row that belong together, for contrastive learning."""

import numpy as np
import torch

from pipelines.core import seeding
from pipelines.models.batch import Batch
from pipelines.pretraining.packing import TextBatches, TooShortError
from pipelines.training.batches import collate


class PositivePairBatches(TextBatches):
    """input_ids and attention_mask (B, 2, T); document (B,) numbers the first texts, which several rows may share."""

    def _cut(self) -> None:
        self.sequences = len(self.data)
        if self.sequences < 2:
            raise TooShortError("there is only one positive pair", "contrast needs another one")
        lengths = self.data.lengths.reshape(-1, 2)
        self.padding = 1 - float(lengths.sum()) / (2 * len(lengths) * int(lengths.max()))
        numbers: dict[bytes, int] = {}
        starts, ends = self.data.offsets[:-1:2], self.data.offsets[1::2]
        texts = (self.data.ids[a:b].tobytes() for a, b in zip(starts, ends, strict=True))
        self.first_texts = np.array([numbers.setdefault(text, len(numbers)) for text in texts])

    def _draw(self, epoch: int) -> np.ndarray:
        # the name is part of the seed: another name would draw other batches
        return seeding.generator(self.seed, "matched", epoch).permutation(self.sequences)

    def _join(self, chosen: np.ndarray, epoch: int) -> Batch:
        batch = collate(self.data, chosen, self.tokenizer.pad_id)
        return batch | {"document": torch.from_numpy(self.first_texts[chosen])}
