"""A Ray actor that scores partitions on a node of a cluster, one after the other; it writes only temporary files there.

What it has scored is sent through Ray to the process of the job, which alone publishes and records.
"""

import shutil
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipelines.core import provenance, threads
from pipelines.core.errors import InputError
from pipelines.inference.predictor import Predictor
from pipelines.scoring import job_folders, scoring_work
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.job_record import Job, Planned
from pipelines.scoring.manifest import Entry
from pipelines.scoring.partition_scoring import PieceScorer
from pipelines.scoring.scoring_work import StoppedError

THREADS = 1  # and CPUs of its node
PART_BYTES = 8 << 20  # of a file that are sent at once
SHARE = "all nodes must see it at the same path, see docs/cluster.md"


@dataclass(frozen=True)
class PartitionParts:
    """A partition that was scored on a node: its entry, and its files in parts, each as bytes or Ray's reference."""

    entry: Entry
    rows: list[Any]
    bad: list[Any]
    states: list[Any]  # empty unless the job keeps states


@dataclass(frozen=True)
class Other:
    """A partition that, as a node sees it, is not what it was when the job began."""

    node: str


class NodeScorer:
    """Scores partitions of a job whose record, without its partitions, is `job`.

    Args:
        folder: of the model, at the same path on every node.
        target: the folder of the answers, for messages: nothing is written there.
    """

    def __init__(self, job: Job, folder: Path, target: Path) -> None:
        self.job, self.folder, self.target = job, folder, Folder(target)
        self.done, self.stopped = (-1, 0), False
        self._turn, self._open = threading.Lock(), ExitStack()

    def begin(self) -> str:
        """Load the model; returns the reason why this node cannot score the job, "" if it can."""
        import ray

        self.node = ray.util.get_node_ip_address()
        threads.use(THREADS)
        with self._turn:
            try:
                self._require_shared()
                signer = self.job.signer()
                self.scorer = PieceScorer(Predictor.load(self.folder, threads=THREADS), self.job, signer=signer)
            except InputError as error:
                return self._sentence(str(error))
            self.source = self._open.enter_context(job_folders.opened(self.job.source))
            self.aside = Path(self._open.enter_context(TemporaryDirectory(prefix="bertline-node-")))
        return ""

    def _require_shared(self) -> None:
        """Raise InputError unless this node sees the model that the job began with, and the folder of rows."""
        source = self.job.source
        if not (job_folders.is_remote(source) or Path(source).exists()):
            raise InputError(f"{source}: not there; {SHARE}")
        if not self.folder.is_dir():
            raise InputError(f"{self.folder}: not there, and it is the model; {SHARE}")
        if provenance.content_digest(self.folder) != self.job.model_digest:
            raise InputError(f"{self.folder}: other files of the model than when the job began; {SHARE}")

    def score(self, number: int, planned: Planned) -> PartitionParts | Other | str:
        """Score the partition with this number; returns a sentence if that is not possible."""
        with self._turn:
            if self.stopped:
                return ""
            self.done = (number, 0)

            def advance(rows: int) -> None:
                self.done = (number, rows)
                if self.stopped:
                    raise StoppedError

            try:
                result = scoring_work.score(self.scorer, planned, self.source, self.target, self.aside, advance)
            except StoppedError:
                return ""
            except InputError as error:
                return self._sentence(self.source.shown(str(error)))
            if not result:
                return Other(self.node)
            states = _parts(result.states_file) if self.job.states else []
            sent = PartitionParts(result.entry, _parts(result.rows_file), _parts(result.bad_file), states)
            shutil.rmtree(result.rows_file.parent)
            return sent

    def _sentence(self, sentence: str) -> str:
        return f"the node {self.node}: {sentence}"

    def progress(self) -> tuple[int, int]:
        """The number of the partition that is scored, and its rows that are done."""
        return self.done

    def stop(self) -> None:
        """End what is scored at its next piece, and remove the temporary files."""
        self.stopped = True
        with self._turn:
            self._open.close()


def _parts(file: Path) -> list[Any]:
    """The bytes of a file in order: as they are if they are few, else as references to parts in this node's memory."""
    import ray

    if file.stat().st_size <= PART_BYTES:
        return [file.read_bytes()]
    with file.open("rb") as opened:
        return [ray.put(part) for part in iter(lambda: opened.read(PART_BYTES), b"")]
