"""Answers of an earlier job, or its encoder states, found by the digests of their rows.

They are on disk, so that memory does not grow with them: two files of keys are sorted by digest, and one file has what
the earlier job wrote. All are mapped into memory, of which the system keeps what is used.
"""

from collections.abc import Iterator
from contextlib import ExitStack, nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa

from pipelines.core import paths, provenance, tables
from pipelines.core.errors import InputError
from pipelines.core.progress import progress, say
from pipelines.core.task import Task
from pipelines.inference import encoder_states, row_digests
from pipelines.scoring import audit, batch_scoring, columns, job_folders, job_record, manifest, row_checks, states_files
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.job_record import Job
from pipelines.scoring.manifest import Entry

BATCH_ROWS = 1 << 16  # answers in a batch of the file
PIECE_ROWS = 2048  # rows that are read at once
BUCKET_ROWS = 1 << 21  # keys that are sorted at once
MAX_BITS = 8  # of a digest for its bucket: more buckets are more open files than a process may have
KEY = np.dtype([("high", "<u8"), ("low", "<u8"), ("place", "<u8")])
REST = np.dtype([("low", "<u8"), ("place", "<u8")])
HIGHS, RESTS, ANSWERS = "highs", "rests", "answers.arrow"


class EarlierAnswers:
    """The answers, or the states, in a folder that `collect` has written; several processes may open it at once."""

    has_states = False

    def __init__(self, place: Path) -> None:
        self.place = place
        self._highs, self._rests = np.zeros(0, "<u8"), np.zeros(0, REST)
        if (place / HIGHS).stat().st_size:
            self._highs, self._rests = np.memmap(place / HIGHS, "<u8", "r"), np.memmap(place / RESTS, REST, "r")
            self._answers = pa.ipc.open_file(pa.memory_map(str(place / ANSWERS)))
            self._batch_rows = self._answers.get_batch(0).num_rows  # of all batches but the last
            self.has_states = self._answers.schema.names == [states_files.COLUMN]

    def places(self, digests: np.ndarray) -> np.ndarray:
        """The places of the answers for rows, (n,) int64; -1 for a row that the earlier job has not answered."""
        if not len(self._highs):
            return np.full(len(digests), -1, np.int64)
        at = np.minimum(np.searchsorted(self._highs, digests[:, 0]), len(self._highs) - 1)
        rests = self._rests[at]
        same = (self._highs[at] == digests[:, 0]) & (rests["low"] == digests[:, 1])
        return np.where(same, rests["place"].astype(np.int64), -1)

    def answers(self, places: np.ndarray) -> pa.Table:
        """The answers at places, (n,) in their order; n is at least 1."""
        batches, rows = np.divmod(places, self._batch_rows)
        order = np.argsort(batches, kind="stable")
        parts = []
        for number in np.unique(batches):
            chosen = order[np.searchsorted(batches[order], number) : np.searchsorted(batches[order], number, "right")]
            parts.append(self._answers.get_batch(int(number)).take(pa.array(rows[chosen])))
        return pa.Table.from_batches(parts).take(pa.array(np.argsort(order)))

    def states(self, places: np.ndarray) -> np.ndarray:
        """The states at places, (n, F) in their order; n is at least 1."""
        return states_files.numbers(self.answers(places))


def collect(job: Job, folder: Path, place: Path) -> EarlierAnswers | None:
    """Collect what the job in `job.since` has for this one into the folder `place`; None, with a message, if nothing.

    These are its answers if they are of the same model; its states if they are of the same encoder as the model's in
    `folder`, or if this job keeps states, which must be there for each row. What is in a file whose bytes are not those
    that were written is left out. Raises InputError if a file changes while it is read.
    """
    with job_folders.opened(job.since) as target:
        return _collected(job, target, folder, place)


def _collected(job: Job, target: Folder, folder: Path, place: Path) -> EarlierAnswers | None:
    try:
        earlier, entries = finished(target)
    except InputError as error:
        say(f"all rows are scored: {target.shown(str(error))}")
        return None
    of_states = bool(job.states) or (earlier.model_digest != job.model_digest and bool(earlier.states))
    if problem := _other_states(job, earlier, target, folder) if of_states else _other_answers(job, earlier, target):
        say(f"all rows are scored: {problem}")
        return None
    if job.receipts and not (earlier.receipts and earlier.commit == job.commit):
        code = f"the commit {earlier.commit}" if earlier.receipts else "code that no receipt names"
        say(f"all rows are scored: the answers in {target} are of {code}, the receipts of this job are of {job.commit}")
        return None
    place.mkdir()
    rows, task = sum(entry["scored"] for entry in entries), Task.load(folder)
    batch_rows = states_files.BATCH_ROWS if of_states else BATCH_ROWS
    with _Collector(place, rows, batch_rows) as collector, progress("collecting", rows, "rows") as advance:
        for entry in entries:
            names = [entry[name] for name in ("output", "states")[: 1 + of_states] if name in entry]
            with target.having(*names) if all(map(target.has, names)) else nullcontext():
                if of_states:
                    _collect_states(target, entry, task, collector)
                else:
                    _collect_file(target, earlier, entry, task, collector)
            advance(collector.count)
    return EarlierAnswers(place)


def _other_answers(job: Job, earlier: Job, target: Folder) -> str:
    """The reason why the answers of an earlier job are not those of this one; "" if they are."""
    if earlier.model_digest == job.model_digest:
        return ""
    return (
        f"the answers in {target} are of {earlier.model} version {earlier.version}, "
        f"this job is of {job.model} version {job.version}"
    )


def _other_states(job: Job, earlier: Job, target: Folder, folder: Path) -> str:
    """The reason why the encoder states of an earlier job are not those of this one; "" if they are."""
    if not earlier.states:
        return f"{target} has no encoder states, and this job keeps one for each row"
    try:
        same = earlier.states == (job.states or encoder_states.digest(folder))
    except InputError as error:  # the model has none
        return str(error)
    return "" if same else f"the encoder states in {target} are of another encoder, processor or release"


def finished(target: Folder) -> tuple[Job, list[Entry]]:
    """The job in `target` and its entries. Raises InputError unless it is finished and its manifest is as written."""
    target.update()
    earlier = job_record.read(target.path)
    if not earlier:
        raise InputError(f"{target}: not the folder of a scoring job; no answers can be taken over")
    entries = manifest.read(target.path)
    if findings := [*audit.summary_findings(target.path, entries)[1], *audit.plan_findings(earlier, entries)]:
        raise InputError(f"{target}: no answers can be taken over: {findings[0]}; see `bertline verify {target}`")
    return earlier, list(entries.values())


def _collect_file(target: Folder, earlier: Job, entry: Entry, task: Task, collector: "_Collector") -> None:
    """Collect the answers of one file, which is digested before and after it is read."""
    file = _unchanged(target, entry, "output")
    if not file:
        return
    names = {f"{earlier.prefix}{name}": name for name in batch_scoring.answer_columns(task.kind)}
    wanted = [*columns.inputs(task.kind), *names]
    written = tables.open_parquet(file).schema_arrow.names
    if absent := [name for name in names if name not in written]:
        of_file = f"{target.shown(str(file))}: an earlier release wrote it, without {', '.join(absent)}"
        say(f"{of_file}; none of its answers are taken over")
        return
    for batch in tables.unchecked_batches(file, wanted, PIECE_ROWS):
        rows = pa.Table.from_batches([batch])
        answers = rows.select(list(names)).rename_columns(list(names.values()))
        collector.add(row_digests.digests(row_checks.inputs(rows, task)), answers)
    if provenance.sha256(file) != entry["output_digest"]:
        raise InputError(f"{file}: it changed while its answers were taken over; run the job again")


def _unchanged(target: Folder, entry: Entry, name: str) -> Path | None:
    """A file of an entry; None, with a message, if its bytes are not those that were written."""
    file = paths.below(target.path, entry[name])
    if file.is_file() and provenance.sha256(file) == entry[f"{name}_digest"]:
        return file
    say(f"{target.shown(str(file))}: its bytes are not those that were written; none of its answers are taken over")
    return None


def _collect_states(target: Folder, entry: Entry, task: Task, collector: "_Collector") -> None:
    """Collect the states of one file, which is digested with its answers before and after it is read."""
    if "states" not in entry:  # of mended rows
        return
    file, states = _unchanged(target, entry, "output"), _unchanged(target, entry, "states")
    if not (file and states):
        return
    reader = states_files.StatesReader(states)
    for batch in tables.unchecked_batches(file, [*columns.inputs(task.kind)], PIECE_ROWS):
        rows = row_checks.inputs(pa.Table.from_batches([batch]), task)
        collector.add(row_digests.digests(rows), reader.next(len(rows)))
    for name, path in (("output", file), ("states", states)):
        if provenance.sha256(path) != entry[f"{name}_digest"]:
            raise InputError(f"{path}: it changed while its states were taken over; run the job again")


class _Collector:
    """Writes answers in their order, and their keys into buckets by digest, which it sorts at its end."""

    def __init__(self, place: Path, rows: int, batch_rows: int = BATCH_ROWS) -> None:
        self.place, self.count, self.batch_rows = place, 0, batch_rows
        self.bits = min(MAX_BITS, max(0, (rows // BUCKET_ROWS).bit_length()))
        self._pending: list[pa.Table] = []
        self._writer: pa.RecordBatchFileWriter | None = None
        self._open = ExitStack()

    def __enter__(self) -> "_Collector":
        names = [self.place / f"bucket-{number:03d}" for number in range(1 << self.bits)]
        self._files = [self._open.enter_context(name.open("wb")) for name in names]
        return self

    def __exit__(self, *failure: object) -> None:
        with self._open:
            if not any(failure):
                self._write(last=True)
        if not any(failure):
            self._sort()

    def add(self, digests: np.ndarray, answers: pa.Table) -> None:
        """Add rows with their answers."""
        keys = np.empty(len(digests), KEY)
        keys["high"], keys["low"] = digests[:, 0], digests[:, 1]
        keys["place"] = np.arange(self.count, self.count + len(digests))
        buckets = keys["high"] >> np.uint64(64 - self.bits) if self.bits else np.zeros(len(keys), np.uint64)
        for number in np.unique(buckets):
            keys[buckets == number].tofile(self._files[int(number)])
        self._pending.append(answers)
        self.count += len(digests)
        self._write()

    def _write(self, last: bool = False) -> None:
        """Write pending answers in batches of exactly `batch_rows` rows, but for the last."""
        rows = sum(len(table) for table in self._pending)
        if not self._pending or (rows < self.batch_rows and not last):
            return
        together = pa.concat_tables(self._pending).combine_chunks()
        if not self._writer:
            self._writer = pa.ipc.new_file(str(self.place / ANSWERS), together.schema)
            self._open.enter_context(self._writer)
        whole = rows if last else rows // self.batch_rows * self.batch_rows
        self._writer.write_table(together.slice(0, whole), max_chunksize=self.batch_rows)
        self._pending = [together.slice(whole)] if whole < rows else []

    def _sort(self) -> None:
        """Write the keys in the order of their digests; of rows with the same digest the first stays."""
        with (self.place / HIGHS).open("wb") as highs, (self.place / RESTS).open("wb") as rests:
            for keys in self._buckets():
                keys = keys[np.lexsort((keys["place"], keys["low"], keys["high"]))]
                first = np.ones(len(keys), bool)
                first[1:] = (keys["high"][1:] != keys["high"][:-1]) | (keys["low"][1:] != keys["low"][:-1])
                keys["high"][first].tofile(highs)
                keys[["low", "place"]][first].astype(REST).tofile(rests)

    def _buckets(self) -> Iterator[np.ndarray]:
        """The keys of each bucket; its file is removed."""
        for file in sorted(self.place.glob("bucket-*")):
            yield np.fromfile(file, KEY)
            file.unlink()
