"""Two texts of a row that belong together, for the objective that asks which ones do."""

import numpy as np
import torch

from pipelines.core import seeding
from pipelines.core.errors import InputError
from pipelines.models.batch import Batch
from pipelines.training.batches import collate
from pipelines.training.packing import TextBatches


class MatchedBatches(TextBatches):
    """input_ids and attention_mask (B, 2, T), and the number of each row's first text (B,): rows may share it."""

    def _cut(self) -> None:
        self.sequences = len(self.data)
        if self.sequences < 2:
            raise InputError("one row of two texts: there is no other to tell them from")
        lengths = self.data.lengths.reshape(-1, 2)
        self.padding = 1 - float(lengths.sum()) / (2 * len(lengths) * int(lengths.max()))
        numbers: dict[bytes, int] = {}
        starts, ends = self.data.offsets[:-1:2], self.data.offsets[1::2]
        texts = (self.data.ids[a:b].tobytes() for a, b in zip(starts, ends, strict=True))
        self.first_texts = np.array([numbers.setdefault(text, len(numbers)) for text in texts])

    def _draw(self, epoch: int) -> np.ndarray:
        return seeding.generator(self.seed, "matched", epoch).permutation(self.sequences)

    def _join(self, chosen: np.ndarray, epoch: int) -> Batch:
        batch = collate(self.data, chosen, self.tokenizer.pad_id)
        return batch | {"document": torch.from_numpy(self.first_texts[chosen])}
