"""One partition: its rows scored into a Parquet file, its bad rows into the quarantine, both published together."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core import paths, provenance
from pipelines.core.errors import InputError
from pipelines.inference.predictor import Predictor
from pipelines.scoring import batch_scoring, durable, job_record, manifest, pieces, quarantine
from pipelines.scoring.job_record import Job, Planned
from pipelines.scoring.manifest import Entry
from pipelines.scoring.partitions import Partition
from pipelines.scoring.pieces import Piece

STAMP = ("model_name", "model_version", "model_digest", "row_number", "status")
SCORED = "scored"
ROWS, BYTES = 2048, 2 << 20  # of what is scored together
GROUP_BYTES = 8 << 20  # of a row group in memory


class ChangedError(InputError):
    """A partition was changed while it was scored."""


def added(kind: str, prefix: str) -> list[str]:
    """The names of the columns that a job adds."""
    return [f"{prefix}{name}" for name in (*batch_scoring.answer_columns(kind), *STAMP)]


class PieceScorer:
    """Adds predictions, the model, the row's number and its status to pieces of a partition."""

    def __init__(self, predictor: Predictor, job: Job, status: str = SCORED) -> None:
        self.predictor, self.job, self.status = predictor, job, status

    def __call__(self, piece: Piece) -> pa.Table:
        answers = self.predictor.predict(piece.inputs)
        stamps = [
            (pa.string(), self.job.model),
            (pa.int64(), self.job.version),
            (pa.string(), self.job.model_digest),
            (pa.int64(), piece.numbers),
            (pa.string(), self.status),
        ]
        names = batch_scoring.answer_columns(self.predictor.task.kind)
        arrays = [answers.column(name) for name in names]
        for kind, value in stamps:
            several = isinstance(value, np.ndarray)
            arrays.append(pa.array(value if several else [value] * len(piece.numbers), kind))
        rows = piece.rows
        for name, column in zip(added(self.predictor.task.kind, self.job.prefix), arrays, strict=True):
            rows = rows.append_column(name, column)
        return rows


def score(
    job: Job, planned: Planned, partition: Partition, predictor: Predictor, target: Path, advance: Callable[[int], None]
) -> Entry:
    """Score a partition and publish it; returns its entry for the manifest, which is not written yet.

    Raises ChangedError, and publishes nothing, if the partition is not what it was when the job began.
    """
    began, cpu_began = time.monotonic(), time.process_time()
    aside = target / job_record.PARTIAL
    rows_file, bad_file = aside / "rows.parquet", aside / "bad.jsonl"
    stream = pieces.read(partition, predictor.task, job.longest, planned.forms)
    output = paths.below(target, partition.output)
    with durable.written(output):
        try:
            fields = pieces.scored_schema(partition, predictor.task, planned.forms)
            good, bad = write(PieceScorer(predictor, job), fields, stream, rows_file, bad_file, planned.name, advance)
        except (InputError, OSError, pa.ArrowException):
            if job_record.is_changed(planned, partition):
                raise ChangedError(f"{partition.path}: it changed while it was scored") from None
            raise
        if job_record.is_changed(planned, partition):
            raise ChangedError(f"{partition.path}: it changed while it was scored")
        assert (good + bad, bad) == (planned.rows, planned.bad), f"{partition.path}: {good} and {bad} rows"
        entry = stamped(job, manifest.PARTITION, planned.name, planned.digest, rows_file, partition.output)
        entry |= {"rows": planned.rows, "scored": good, "quarantined": bad}
        if bad:
            name = quarantine.place(planned.name)
            entry |= {"quarantine": name, "quarantine_digest": provenance.sha256(bad_file)}
            durable.publish(bad_file, paths.below(target, name))
        durable.publish(rows_file, output)
    entry[manifest.MEASURED] = manifest.measured(good, time.monotonic() - began, time.process_time() - cpu_began)
    return entry


def stamped(job: Job, kind: str, source: str, digest: str, rows_file: Path, output: str) -> Entry:
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
) -> tuple[int, int]:
    """Score pieces into a Parquet file and a file of bad rows; returns the numbers of both."""
    empty = fields.empty_table()
    inputs = pieces.empty_inputs(scorer.predictor.task)
    schema = scorer(Piece(empty, inputs, np.zeros(0, np.int64), [])).schema.with_metadata(fields.metadata)
    good = bad = 0
    pending: list[pa.Table] = []
    with (
        pq.ParquetWriter(rows_file, schema, compression="zstd") as writer,
        bad_file.open("w", encoding="utf-8", newline="\n") as bad_lines,
    ):
        for piece in pieces.joined(stream, ROWS, BYTES):
            bad_lines.writelines(quarantine.line(source, one) for one in piece.bad)
            pending.append(scorer(piece).cast(schema))
            good, bad = good + len(piece.numbers), bad + len(piece.bad)
            if sum(table.nbytes for table in pending) >= GROUP_BYTES:
                writer.write_table(pa.concat_tables(pending))
                pending = []
            advance(good + bad)
        if pending:
            writer.write_table(pa.concat_tables(pending))
    return good, bad
