"""Text as an objective shows it to the model: the corruption of a step depends on the seed and the step alone."""

import json
from pathlib import Path
from types import ModuleType

from pipelines.core import seeding
from pipelines.core.entries import Pretrain, Section
from pipelines.models.batch import Batch
from pipelines.text.tokenizer import Tokenizer
from pipelines.training.batches import Encoded
from pipelines.training.packing import PackedBatches
from pipelines.training.segments import SegmentBatches

HELD_OUT_TOKENS = 100_000  # that a model is measured on while it learns


class CorruptedBatches:
    """Packed text, or two segments a sequence where the objective reads those, after `objective.corrupt`.

    Args:
        objective: a module of pipelines/objectives.
        options: its Params.
        data: the folder of encoded text.
        held_out: the text of the split `test`, as much as HELD_OUT_TOKENS, the same whatever the entry's seed.
    """

    def __init__(
        self,
        objective: ModuleType,
        options: Section,
        data: Path,
        tokenizer: Tokenizer,
        entry: Pretrain,
        held_out: bool = False,
    ) -> None:
        self.objective, self.options, self.tokenizer = objective, options, tokenizer
        self.seed = 0 if held_out else entry.seed
        text = Encoded.read(data, "test" if held_out else "train")
        epochs = min(1.0, HELD_OUT_TOKENS / max(1, len(text.ids))) if held_out else entry.epochs
        length = json.loads((data / "encoding.json").read_text())["max_length"]
        of = SegmentBatches if objective.SEGMENTS else PackedBatches
        repack = not getattr(options, "masks", 0)
        self.inner = of(text, length, entry.batch_size, epochs, self.seed, tokenizer, repack)
        self.padding = self.inner.padding

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, step: int) -> Batch:
        rng = seeding.generator(self.seed, "corrupt", step)
        return self.objective.corrupt(self.inner[step], rng, self.options, self.tokenizer)

    def fingerprint(self) -> str:
        return self.inner.fingerprint()  # the objective's own numbers are among the job's params
