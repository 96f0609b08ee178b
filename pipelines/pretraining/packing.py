"""Documents packed into full sequences without padding, in a new order in every epoch.

Documents follow each other with [SEP] between them and are cut wherever a sequence is full, as in RoBERTa's
FULL-SENTENCES (Liu et al. 2019, section 4.2); each sequence is [CLS] ... [SEP]. The tokens at an epoch's end that do
not fill a sequence are left out; every epoch leaves out others. Without `repack` every epoch has the same sequences in
a new order, as the fixed masks of masking.py require.
"""

from abc import ABC, abstractmethod

import numpy as np
import torch

from pipelines.core import seeding
from pipelines.core.errors import InputError
from pipelines.core.ragged import positions
from pipelines.models.batch import Batch
from pipelines.text.protocol import Tokenizer
from pipelines.training.batches import Encoded


class TooShortError(InputError):
    """A split has too little text for one sequence, or for two texts to compare."""

    def __init__(self, reason: str, advice: str) -> None:
        super().__init__(f"{reason}; {advice}")
        self.reason = reason


class TextBatches(ABC):
    """Batches of text that is cut into sequences; every epoch has each sequence once, in a new order.

    A subclass counts the `sequences`, draws the order of an epoch, and makes batches of the chosen ones.
    """

    sequences: int
    padding = 0.0  # share of tokens that are padding

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
        self._cut()
        self.steps_per_epoch = -(-self.sequences // batch_size)
        self.steps = max(1, round(epochs * self.steps_per_epoch))
        self._epoch: tuple[int, np.ndarray] = (-1, np.array([]))

    def __len__(self) -> int:
        return self.steps

    def __getitem__(self, step: int) -> Batch:
        epoch, place = divmod(step, self.steps_per_epoch)
        if self._epoch[0] != epoch:
            self._epoch = epoch, self._draw(epoch)
        return self._join(self._epoch[1][place * self.batch_size : (place + 1) * self.batch_size], epoch)

    def fingerprint(self) -> str:
        of = f"{type(self).__name__} {self.length} {self.batch_size} {self.steps} {self.seed} {self.repack}"
        return f"{self.data.fingerprint()} {of}"

    @abstractmethod
    def _cut(self) -> None:
        """Count the sequences. Raises TooShortError if there is none."""

    @abstractmethod
    def _draw(self, epoch: int) -> np.ndarray:
        """The sequences of an epoch in a new order, or their numbers."""

    @abstractmethod
    def _join(self, chosen: np.ndarray, epoch: int) -> Batch:
        """A batch of the sequences `chosen` from what `_draw` returned."""


class PackedBatches(TextBatches):
    """Sequences of exactly `length` tokens (T): input_ids (B, T). Nothing is padded, so there is no mask."""

    def _cut(self) -> None:
        tokens = len(self.data.ids) + len(self.data)  # with a separator after each document
        self.sequences = tokens // (self.length - 2)
        if not self.sequences:
            raise TooShortError(
                f"{tokens} tokens of text do not fill one sequence of {self.length}",
                "give more text or a smaller max_length",
            )

    def _draw(self, epoch: int) -> np.ndarray:
        """This epoch's sequences without [CLS] and [SEP], (sequences, T - 2)."""
        packing = epoch if self.repack else 0
        order = seeding.generator(self.seed, "documents", packing).permutation(len(self.data))
        lengths = self.data.lengths[order]
        stream = np.full(lengths.sum() + len(order), self.tokenizer.sep_id, self.data.ids.dtype)
        starts = np.cumsum(lengths + 1) - (lengths + 1)
        stream[positions(starts, lengths)] = self.data.ids[positions(self.data.offsets[order], lengths)]
        body = stream[: self.sequences * (self.length - 2)].reshape(self.sequences, -1)
        return body[seeding.generator(self.seed, "sequences", epoch).permutation(len(body))]

    def _join(self, chosen: np.ndarray, epoch: int) -> Batch:
        """Bodies (B, T - 2) between [CLS] and [SEP]."""
        ids = np.empty((len(chosen), self.length), np.int64)
        ids[:, 0], ids[:, 1:-1], ids[:, -1] = self.tokenizer.cls_id, chosen, self.tokenizer.sep_id
        return {"input_ids": torch.from_numpy(ids)}
