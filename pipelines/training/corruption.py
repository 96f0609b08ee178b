"""Batches as an objective shows them to the model: the corruption of a step depends on the seed and the step alone."""

from collections.abc import Callable

import numpy as np

from pipelines.core import seeding
from pipelines.models.batch import Batch
from pipelines.training.batches import Batches

Corrupt = Callable[[Batch, np.random.Generator], Batch]


class CorruptedBatches:
    """`inner`'s batches after `corrupt(batch, rng)`."""

    def __init__(self, inner: Batches, corrupt: Corrupt, seed: int) -> None:
        self.inner, self.corrupt, self.seed = inner, corrupt, seed

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, step: int) -> Batch:
        return self.corrupt(self.inner[step], seeding.generator(self.seed, "corrupt", step))

    def fingerprint(self) -> str:
        return self.inner.fingerprint()  # the objective's own numbers are among the job's params
