"""One partition: its rows scored into a Parquet file, its bad rows into the quarantine, both published together."""

import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core import paths, provenance, schema
from pipelines.core.errors import InputError
from pipelines.inference import receipts, row_digests
from pipelines.inference.cascade_watch import CascadeWatch
from pipelines.inference.encoder_states import DividedModel
from pipelines.inference.predictor import Predictor
from pipelines.inference.receipts import AnsweringModel, Signer
from pipelines.scoring import batch_scoring, durable, job_record, manifest, pieces, quarantine, states_files
from pipelines.scoring.answer_rows import MODEL_COLUMNS
from pipelines.scoring.earlier_answers import EarlierAnswers
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.job_record import Job, Planned
from pipelines.scoring.manifest import Entry
from pipelines.scoring.partitions import Partition
from pipelines.scoring.pieces import Piece
from pipelines.scoring.states_files import StatesFile

COLUMNS = (*MODEL_COLUMNS, "row_number", "status")  # beside those of the answer
SCORED = "scored"
ROWS, BYTES = 2048, 2 << 20  # of what is scored together
GROUP_BYTES = 8 << 20  # of a row group in memory
PROBED = 4  # rows that are scored in full too, before states are taken over
ANSWER_BYTES = 256  # about those of an answer and the columns that say whose it is


class ChangedError(InputError):
    """A partition was changed while it was scored."""


def added(kind: str, prefix: str, signed: bool = False) -> list[str]:
    """The names of the columns that a job adds; `signed`: its answers have receipts."""
    more = (receipts.COLUMN,) if signed else ()
    return [f"{prefix}{name}" for name in (*batch_scoring.answer_columns(kind), *COLUMNS, *more)]


class PieceScorer:
    """Adds predictions, the model, the row's number and its status to pieces of a partition.

    `earlier` has answers that are taken over, or encoder states; `taken` and `from_states` count them. `signer` adds a
    receipt to each row. Raises InputError if the job keeps states, and this machine would compute others.
    """

    def __init__(
        self,
        predictor: Predictor,
        job: Job,
        status: str = SCORED,
        earlier: EarlierAnswers | None = None,
        signer: Signer | None = None,
    ) -> None:
        self.predictor, self.job, self.status, self.earlier = predictor, job, status, earlier
        self.taken = self.from_states = 0
        has_states = job.states or (earlier and earlier.has_states)
        self.watch = CascadeWatch.of(predictor)
        self.divided = DividedModel(predictor, job.states) if has_states else None
        self.signer = signer
        self.model = AnsweringModel(predictor.task.kind, job.model, job.version, job.model_digest)
        types = schema.PREDICTIONS[predictor.task.kind]
        self.answer_schema = pa.schema(
            [(n, types.field(n).type) for n in batch_scoring.answer_columns(predictor.task.kind)]
        )

    def __call__(self, piece: Piece) -> pa.Table:
        return self.scored(piece)[0]

    def scored(self, piece: Piece) -> tuple[pa.Table, np.ndarray | None]:
        """The rows of a piece with what is added, and their states (n, F) if the model is divided."""
        answers, states = self._answers_and_states(piece.inputs)
        values = [
            (pa.string(), self.job.model),
            (pa.int64(), self.job.version),
            (pa.string(), self.job.model_digest),
            (pa.int64(), piece.numbers),
            (pa.string(), self.status),
        ]
        arrays: list[pa.Array | pa.ChunkedArray] = list(answers.columns)
        for kind, value in values:
            several = isinstance(value, np.ndarray)
            arrays.append(pa.array(value if several else [value] * len(piece.numbers), kind))
        if self.signer:
            signed = self.signer.receipts(self.model, piece.inputs, answers.to_pylist())
            arrays.append(pa.array(signed, receipts.TYPE, size=len(piece.numbers)))
        rows, names = piece.rows, added(self.predictor.task.kind, self.job.prefix, bool(self.signer))
        for name, column in zip(names, arrays, strict=True):
            rows = rows.append_column(name, column)
        return rows, states

    def counts(self) -> dict[str, int]:
        """The counts of rows so far that were not scored in full, and of a cascade's compared rows."""
        counts = dict(zip(manifest.ORIGINS, (self.taken, self.from_states), strict=True))
        if self.watch:
            compared = self.watch.compared
            counts |= dict(zip(manifest.COMPARED, (compared.rows, compared.differing), strict=True))
        return counts

    def states_file(self, path: Path) -> AbstractContextManager[StatesFile | None]:
        """The file of a partition's states, if the job keeps them."""
        return StatesFile(path, self.divided.width) if self.divided and self.job.states else nullcontext()

    def _answers_and_states(self, inputs: pa.Table) -> tuple[pa.Table, np.ndarray | None]:
        """The answers for rows in one chunk, so that the file is the same whether they are taken over or not."""
        if not len(inputs):
            return self._no_answers
        if not self.earlier:
            answers, states = self._predicted(inputs)
            return answers.combine_chunks(), states
        places = self.earlier.places(row_digests.digests(inputs))
        old, new = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        parts = [self._predicted(inputs.take(new))] if len(new) else []
        if len(old):
            parts.append(self._taken_over(inputs.take(old), places[old]))
        order = np.argsort(np.concatenate([new, old]))
        answers = pa.concat_tables([part for part, _ in parts]).take(order).combine_chunks()
        states_of_parts = [part for _, part in parts if part is not None]
        return answers, np.concatenate(states_of_parts)[order] if states_of_parts else None

    @cached_property
    def _no_answers(self) -> tuple[pa.Table, np.ndarray | None]:
        """The answers for no rows. Every partition asks for them, for the types of its columns."""
        task = self.predictor.task
        answers, states = self._predicted(pieces.empty_inputs(task))
        return answers.combine_chunks(), states

    def _taken_over(self, inputs: pa.Table, places: np.ndarray) -> tuple[pa.Table, np.ndarray | None]:
        """The answers of rows that the earlier job has, and their states."""
        assert self.earlier
        if not (self.divided and self.earlier.has_states):
            self.taken += len(places)
            return self.earlier.answers(places).cast(self.answer_schema), None
        states = self.earlier.states(places)
        if not self.from_states:
            self._require_same(inputs.slice(0, PROBED), states[:PROBED])
        self.from_states += len(places)
        return self._cast(self.divided.answer(inputs, states)), states

    def _require_same(self, inputs: pa.Table, states: np.ndarray) -> None:
        """Raise InputError unless the whole model computes the same states, and the head alone the same answers."""
        assert self.divided
        answers, computed = self.divided.predict(inputs)
        if states.tobytes() != computed.tobytes() or not answers.equals(self.divided.answer(inputs, states)):
            raise InputError(f"{self.job.since}: its states are others than those of this model; score without --since")

    def _predicted(self, inputs: pa.Table) -> tuple[pa.Table, np.ndarray | None]:
        if not self.divided:
            return self._cast(self.predictor.predict(inputs)), None
        answers, states = self.divided.predict(inputs)
        return self._cast(answers), states

    def _cast(self, answers: pa.Table) -> pa.Table:
        return answers.select(self.answer_schema.names).cast(self.answer_schema)


class Effort:
    """The time of a partition, and the counts of its rows, from here on."""

    def __init__(self, scorer: PieceScorer) -> None:
        self._scorer, self._before = scorer, scorer.counts()
        self._began, self._cpu_began = time.monotonic(), time.process_time()

    def measured(self, rows: int) -> dict[str, Any]:
        """The time and the counts of so many rows, as the manifest has them."""
        took = (time.monotonic() - self._began, time.process_time() - self._cpu_began)
        counts = {name: count - self._before[name] for name, count in self._scorer.counts().items()}
        taken, from_states = (counts.pop(name) for name in manifest.ORIGINS)
        return manifest.measured(rows, *took, taken, manifest.now(), from_states) | counts


@dataclass(frozen=True)
class ScoredPartition:
    """A partition that is scored into files which are not published yet; its entry for the manifest."""

    entry: Entry
    rows_file: Path
    bad_file: Path
    states_file: Path

    def publish(self, target: Folder) -> None:
        """Publish the bad rows and the states, then the answers; the manifest names them after that."""
        output = self.entry["output"]
        with durable.written(target.path / output):
            if self.entry.get("quarantine"):
                target.publish(self.bad_file, self.entry["quarantine"])
            if self.entry.get("states"):
                target.publish(self.states_file, self.entry["states"])
            target.publish(self.rows_file, output)


def score(
    scorer: PieceScorer,
    planned: Planned,
    partition: Partition,
    target: Folder,
    aside: Path,
    advance: Callable[[int], None],
) -> ScoredPartition:
    """Score a partition that is `here`, of the job in `target`, into files in the folder `aside`.

    Raises ChangedError if the partition is not what it was when the job began.
    """
    job, task, effort = scorer.job, scorer.predictor.task, Effort(scorer)
    rows_file, bad_file, states_file = aside / "rows.parquet", aside / "bad.jsonl", aside / "states.arrow"
    hashing = hashlib.sha256()
    stream = pieces.read(partition, task, job.longest, planned.forms, hashing)
    with durable.written(paths.below(target.path, partition.output)):
        try:
            fields = pieces.scored_schema(partition, task, planned.forms)
            with scorer.states_file(states_file) as states:
                good, bad = write(scorer, fields, stream, rows_file, bad_file, planned.name, advance, states)
        except (InputError, OSError, pa.ArrowException):
            if job_record.holds_others(planned, partition):
                raise ChangedError(f"{partition.path}: it changed while it was scored") from None
            raise
        if hashing.hexdigest() != planned.digest:
            raise ChangedError(f"{partition.path}: it changed while it was scored")
        assert (good + bad, bad) == (planned.rows, planned.bad), f"{partition.path}: {good} and {bad} rows"
        entry = entry_of(job, manifest.PARTITION, planned.name, planned.digest, rows_file, partition.output)
        entry |= {"rows": planned.rows, "scored": good, "quarantined": bad}
        if bad:
            digest = provenance.sha256(bad_file)
            entry |= {"quarantine": quarantine.place(planned.name), "quarantine_digest": digest}
        if job.states:
            place = states_files.place(job.states, partition.output)
            entry |= {"states": place, "states_digest": provenance.sha256(states_file)}
    entry[manifest.MEASURED] = effort.measured(good)
    return ScoredPartition(entry, rows_file, bad_file, states_file)


def entry_of(job: Job, kind: str, source: str, digest: str, rows_file: Path, output: str) -> Entry:
    """The part of an entry that says what was made of what, by which version."""
    return {
        "kind": kind,
        "source": source,
        "source_digest": digest,
        "output": output,
        "output_digest": provenance.sha256(rows_file),
        "output_bytes": rows_file.stat().st_size,
        "key": manifest.key(digest, job.model_digest, job.params),
        "model": job.model,
        "version": job.version,
        "model_digest": job.model_digest,
    }


def write(
    scorer: PieceScorer,
    fields: pa.Schema,
    stream: Iterator[Piece],
    rows_file: Path,
    bad_file: Path,
    source: str,
    advance: Callable[[int], None],
    states_file: StatesFile | None = None,
) -> tuple[int, int]:
    """Score pieces into a Parquet file and a file of bad rows, and their states; returns the numbers of both."""
    empty = fields.empty_table()
    inputs = pieces.empty_inputs(scorer.predictor.task)
    fields_written = scorer(Piece(empty, inputs, np.zeros(0, np.int64), [])).schema.with_metadata(fields.metadata)
    good = bad = size = 0
    pending: list[pa.Table] = []
    with (
        pq.ParquetWriter(rows_file, fields_written, compression="zstd") as writer,
        bad_file.open("w", encoding="utf-8", newline="\n") as bad_lines,
    ):
        for piece in pieces.joined(stream, ROWS, BYTES):
            bad_lines.writelines(quarantine.line(source, one) for one in piece.bad)
            rows, states = scorer.scored(piece)
            pending.append(rows.cast(fields_written))
            if states_file and states is not None:
                states_file.write(states)
            good, bad = good + len(piece.numbers), bad + len(piece.bad)
            # of the input alone: answers that are taken over may have other buffers, and the file is the same
            size += piece.rows.nbytes + ANSWER_BYTES * len(piece.numbers)
            if size >= GROUP_BYTES:
                writer.write_table(pa.concat_tables(pending))
                pending, size = [], 0
            advance(good + bad)
        if pending:
            writer.write_table(pa.concat_tables(pending))
    return good, bad
