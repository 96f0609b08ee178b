"""The record of a scoring job, _job.json: its model's version, its params, and every partition as it was at the start.

The record pins the version: a job ends on the version that it began with.
"""

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field, TypeAdapter, ValidationError

from pipelines.core import json_file, provenance, tables
from pipelines.core.errors import MAX_PRINTED, InputError, listed, one_line, sentence
from pipelines.core.task import Task
from pipelines.inference.receipt_keys import ReceiptKeys
from pipelines.inference.receipts import Signer
from pipelines.scoring import columns, job_folders, pieces
from pipelines.scoring.columns import Forms
from pipelines.scoring.job_folders import Folder, GoneError
from pipelines.scoring.partitions import Partition
from pipelines.scoring.pieces import Piece
from pipelines.scoring.quarantine import Limit
from pipelines.tracking import ledger, registry

FILE = job_folders.RECORD
FORMAT = 1

Count = Annotated[int, Field(ge=0)]


@dataclass(frozen=True)
class Planned:
    """A partition as it was when the job began; `forms` are of a text file's columns."""

    name: str
    size_bytes: int
    digest: str
    rows: Count
    bad: Count
    forms: Forms = field(default_factory=dict)


@dataclass(frozen=True)
class Job:
    """The record of a job."""

    format: int
    source: str  # an absolute path, or s3://
    model: str
    version: int
    model_digest: str
    prefix: str
    longest: int  # the most characters of an input
    partitions: list[Planned]
    since: str = ""  # as the source: the folder of an earlier job, whose answers are taken over
    workers: int = 1  # processes at its begin, for a run that resumes it
    begun: str = ""  # UTC, ISO 8601; it decides nothing
    receipts: str = ""  # an absolute path: the file of keys, if its answers have receipts
    receipt_key: str = ""  # the id of the key that signs them
    commit: str = ""  # of the code that they name
    states: str = ""  # the digest of the encoder, if its states are kept

    @property
    def params(self) -> dict[str, Any]:
        """The params that the files of the answers depend on."""
        signed = {"receipt_key": self.receipt_key, "commit": self.commit} if self.receipts else {}
        states = {"states": self.states} if self.states else {}
        return {"prefix": self.prefix, "longest": self.longest, **signed, **states}

    def signer(self) -> Signer | None:
        """The signer of its receipts; None if it has none. Raises InputError if its key is not there."""
        if not self.receipts:
            return None
        return Signer(ReceiptKeys.read(Path(self.receipts)).require(self.receipt_key), self.commit)

    def write(self, target: Folder) -> None:
        target.write_json(FILE, asdict(self))


_JOB = TypeAdapter(Job)


def read(target: Path) -> Job | None:
    """The job that writes into `target`; None if there is none. Raises InputError if its record is damaged."""
    path = target / FILE
    if not path.is_file():
        return None
    content = json_file.mapping(path)
    if content.get("format") != FORMAT:
        raise InputError(f"{path}: format {content.get('format')!r} is not {FORMAT}; another release wrote it")
    try:
        return _JOB.validate_python(content)
    except ValidationError as error:
        raise InputError(f"{path}: {sentence(error.errors()[0])}") from None


def version(job: Job, target: Folder) -> registry.Version:
    """The version that a job began with. Raises InputError if it was removed since."""
    if version := registry.find(job.model, job.version):
        return version
    removals = (one for one in ledger.read(job.model).removals if job.version in one.event.removed)
    dates = [f"{datetime.fromtimestamp(one.at_ms / 1000, UTC):%Y-%m-%d}" for one in removals]
    by = f" (bertline prune, {dates[-1]})" if dates else ""
    began = f"its job began on {job.model} version {job.version}"
    raise InputError(f"{target}: {began}, which was removed{by}; score into another folder")


def require_own_place(source: Folder, target: Folder) -> None:
    """Raise InputError unless a new job may write into `target`: it is empty, and neither folder lies in the other."""
    if source.contains(target) or target.contains(source):
        raise InputError(f"{target}: it and {source} lie in each other; name another folder for the answers")
    names = target.top_names()
    begun = FILE in names  # another process has begun the job just now
    if (names - {job_folders.LOCK, job_folders.PARTIAL} and not begun) or target.is_file():
        raise InputError(f"{target}: exists, and is not the folder of a scoring job; name another")


def require_sizes(files: list[Partition], target: Folder) -> None:
    """Raise InputError, with all findings, if partitions are too large for the folder of their answers."""
    limit = target.largest_bytes
    large = [one.name for one in files if one.size_bytes > limit] if limit else []
    if limit and large:
        names = listed(large)
        raise InputError(f"{target}: it takes answers to files of at most {limit >> 30} GiB: divide {names}")


def require_not_cancelled(target: Folder) -> None:
    """Raise InputError if somebody has cancelled the job in `target`."""
    if target.is_cancelled():
        raise InputError(f"{target}: cancelled; what is finished stays: bertline jobs {target} --resume goes on")


def plan(
    files: list[Partition], task: Task, longest: int, added: list[str], advance: Callable[[int], None]
) -> list[Planned]:
    """Read every partition once: its digest, its columns, and the numbers of its rows and bad rows.

    Raises InputError, with all findings, if partitions cannot be read or lack a column.
    """
    planned, wrong = [], []
    for number, partition in enumerate(files, start=1):
        try:
            with partition.here():
                planned.append(_planned(partition, task, longest, added))
        except (InputError, pa.ArrowException) as error:  # Arrow cannot choose rows of some types
            message = one_line(error, MAX_PRINTED)
            wrong.append(message if str(partition.path) in message else f"{partition.path}: {message}")
        advance(number)
    if wrong:
        raise InputError(f"nothing is scored: {listed(wrong)}")
    return planned


def _planned(partition: Partition, task: Task, longest: int, added: list[str]) -> Planned:
    hashing, before = hashlib.sha256(), _file_state(partition.path)
    forms: Forms = {}
    if partition.form == "parquet":
        names = tables.open_parquet(partition.path).schema_arrow.names
        rows, bad = _counted(pieces.read(partition, task, longest, {}, hashing))
    else:
        header, records = pieces.records(partition, task, hashing)
        seen: dict[str, set[str]] = {}
        watched = columns.watched(records, seen, task.kind)
        rows, bad = _counted(pieces.of_records(watched, task, longest, {}))
        forms = {name: "text" for name in header if name not in columns.inputs(task.kind)} or columns.decided(seen)
        names = [*columns.inputs(task.kind), *forms]
    if _file_state(partition.path) != before or before[0] != partition.size_bytes:
        raise InputError(f"{partition.path}: it changed, or was cut, while it was read; run it again")
    pieces.require_free(names, added)
    return Planned(partition.name, before[0], hashing.hexdigest(), rows, bad, forms)


def _file_state(path: Path) -> tuple[int, int, int]:
    """The size of a file in bytes, and the time and the number that it gets when it is written or put in its place."""
    status = path.stat()
    return status.st_size, status.st_mtime_ns, status.st_ino


def _counted(parts: Iterable[Piece]) -> tuple[int, int]:
    """The numbers of rows and of bad rows in pieces."""
    good = bad = 0
    for piece in parts:
        good += len(piece.numbers)
        bad += len(piece.bad)
    return good + bad, bad


def require_few_bad(source: Folder, planned: list[Planned], limit: Limit) -> None:
    """Raise InputError if more rows are bad than the limit allows."""
    bad, rows = sum(one.bad for one in planned), sum(one.rows for one in planned)
    if not limit.allows(bad, rows):
        worst = sorted((one for one in planned if one.bad), key=lambda one: -one.bad)
        where = listed([f"{one.bad:,} of {one.rows:,} in {one.name}" for one in worst])
        raise InputError(
            f"{source}: {bad:,} of {rows:,} rows are bad, and --max-bad is {limit.text}: {where}; nothing is scored; "
            "mend them, or allow more"
        )


def changed(job: Job, files: list[Partition], done: set[str], advance: Callable[[int], None]) -> dict[str, str]:
    """The partitions that are not as they were when the job began -> what is other about them.

    Only those that are done are read. The digests of the others are compared when they are scored.
    """
    by_name = {partition.name: partition for partition in files}
    others = dict.fromkeys(by_name.keys() - {one.name for one in job.partitions}, "new")
    for number, one in enumerate(job.partitions, start=1):
        partition = by_name.get(one.name)
        if partition is None:
            others[one.name] = "missing"
        elif has_other_size(one, partition) or (one.name in done and is_changed(one, partition)):
            others[one.name] = "changed"
        advance(number)
    return dict(sorted(others.items()))


def has_other_size(planned: Planned, partition: Partition) -> bool:
    """Return whether a partition has another size than when the job began, or is gone."""
    try:
        return partition.size_bytes != planned.size_bytes
    except FileNotFoundError:
        return True


def is_changed(planned: Planned, partition: Partition) -> bool:
    """Return whether a partition's bytes are others than when the job began."""
    try:
        with partition.here():
            return holds_others(planned, partition)
    except GoneError:
        return True


def holds_others(planned: Planned, partition: Partition) -> bool:
    """Return whether the bytes of a partition that is `here` are others than when the job began."""
    try:
        if partition.path.stat().st_size != planned.size_bytes:
            return True
        return provenance.sha256(partition.path) != planned.digest
    except FileNotFoundError:
        return True
