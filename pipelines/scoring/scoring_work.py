"""The partitions that a run of a job has to score, and how one of them is scored, in whichever process."""

import shutil
import tempfile
from collections.abc import Callable, Generator
from dataclasses import dataclass
from pathlib import Path

from pipelines.inference.receipts import Signer
from pipelines.scoring import partition_scoring
from pipelines.scoring.job_folders import Folder, GoneError
from pipelines.scoring.job_record import Job, Planned
from pipelines.scoring.partition_scoring import ChangedError, PieceScorer, ScoredPartition
from pipelines.scoring.partitions import Partition

MAX_DEATHS = 3  # of processes, one after the other without a partition that was finished
WAITING = 2  # partitions for each process that are scored or wait
POLL_SECONDS = 0.2

# None: the partition changed while it was scored
Results = Generator[tuple[Planned, ScoredPartition | None], None, None]
Rows = Callable[[int, str], None]  # takes the rows that are scored so far, and a note


class StoppedError(Exception):
    """The process that started this one wants no more."""


@dataclass(frozen=True)
class Work:
    """The partitions that a run of a job has to score."""

    job: Job
    folder: Path  # of the model
    source: Folder
    target: Folder
    todo: list[Planned]
    signer: Signer | None = None

    @property
    def aside(self) -> Path:
        return self.target.aside


def score(
    scorer: PieceScorer,
    planned: Planned,
    source: Folder,
    target: Folder,
    aside: Path,
    advance: Callable[[int], None],
) -> ScoredPartition | None:
    """Score a partition in a folder of its own in `aside`, which no other process can meet.

    Returns None if the partition is not what it was when the job began.
    """
    place = Path(tempfile.mkdtemp(dir=aside))
    try:
        partition = Partition(planned.name, source)
        with partition.here():
            return partition_scoring.score(scorer, planned, partition, target, place, advance)
    except (ChangedError, GoneError):
        shutil.rmtree(place, ignore_errors=True)
        return None
