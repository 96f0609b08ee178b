"""Batches of text that an objective has corrupted; the corruption depends on the seed and the step alone."""

from pathlib import Path
from types import ModuleType

from pipelines.core import seeding
from pipelines.core.errors import InputError
from pipelines.core.section import Section
from pipelines.core.task import Task
from pipelines.entries.pretrain import Pretrain
from pipelines.models.batch import Batch
from pipelines.pretraining import masking
from pipelines.pretraining.packing import PackedBatches, TextBatches
from pipelines.pretraining.positive_pairs import PositivePairBatches
from pipelines.pretraining.segment_batches import SegmentBatches
from pipelines.text.protocol import Tokenizer
from pipelines.training.batches import Encoded, sizes

WAYS: dict[str, type[TextBatches]] = {
    "packed": PackedBatches,
    "segments": SegmentBatches,
    "positive_pair": PositivePairBatches,
}
HELD_OUT_TOKENS = 100_000  # tokens of the split `test` to score a model on during training


class CorruptedBatches:
    """Batches of text in the form that the objective reads, after `objective.corrupt`.

    Args:
        objective: a module of pipelines/objectives.
        options: its Params.
        data: the folder of encoded text.
        held_out: read HELD_OUT_TOKENS of the split `test`, the same ones for every seed of the entry.
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
        masking.require_words(options, tokenizer)
        self.seed = 0 if held_out else entry.seed
        of = WAYS[objective.READS[_kind(data, objective)]]
        text = Encoded.read(data, "test" if held_out else "train")
        epochs = min(1.0, HELD_OUT_TOKENS / max(1, len(text.ids))) if held_out else entry.epochs
        length = sizes(data)[0]
        repack = not getattr(options, "masks", 0)
        self.inner = of(text, length, entry.batch_size, epochs, self.seed, tokenizer, repack)
        self.padding = self.inner.padding

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, step: int) -> Batch:
        rng = seeding.generator(self.seed, "corrupt", step)
        return self.objective.corrupt(self.inner[step], rng, self.options, self.tokenizer)

    def fingerprint(self) -> str:
        return self.inner.fingerprint()  # the objective's settings are among the job's params


def _kind(data: Path, objective: ModuleType) -> str:
    """The kind of rows. Raises InputError if the objective does not read it."""
    kind = Task.load(data).kind
    if kind not in objective.READS:
        name, able = objective.__name__.rpartition(".")[2], " or ".join(objective.READS)
        raise InputError(f"{name} learns from rows of kind {able}; these are of {kind}")
    return kind
