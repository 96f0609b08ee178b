"""Batch scoring: reads Parquet, and writes the same rows with predictions and the version of the model."""

import json
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core import paths, provenance, schema, tables
from pipelines.core.errors import InputError, NoFileError, one_line
from pipelines.core.progress import progress
from pipelines.core.task import Task
from pipelines.inference.predictor import Predictor, inputs
from pipelines.scoring import partitions, row_checks
from pipelines.scoring.answer_rows import VERSION_COLUMNS
from pipelines.tracking import registry
from pipelines.training import workers

# keys in the file's metadata: the job that wrote it, and the digest of the model's files
JOB, MODEL = b"bertline.score", b"bertline.model_digest"
ROWS_FOR_RAY = 200_000  # with fewer rows, starting Ray Data costs more time than it saves
BATCH_ROWS = 2048


class Scorer:
    """Adds predictions and the model's version to rows; works in this process and in Ray Data's actors."""

    def __init__(self, name: str, version: int, prefix: str, folder: str) -> None:
        self.version, self.prefix = registry.Version(name, version, {}), prefix
        self.predictor = Predictor.load(Path(folder))

    def __call__(self, rows: pa.Table) -> pa.Table:
        row_checks.require_columns(rows.schema, self.predictor.task)
        answers = self.predictor.predict(row_checks.inputs(rows, self.predictor.task))
        count = rows.num_rows
        of_version = (
            pa.array([self.version.name] * count, pa.string()),
            pa.array([self.version.version] * count, pa.int64()),
        )
        added = {
            **{name: answers.column(name) for name in answer_columns(self.predictor.task.kind)},
            **dict(zip(VERSION_COLUMNS, of_version, strict=True)),
        }
        for name, column in added.items():
            rows = rows.append_column(f"{self.prefix}{name}", column)
        return rows


def answer_columns(kind: str) -> list[str]:
    """The prediction columns to write: all but `id` and `scores`, which has a number for each label."""
    return [name for name in schema.PREDICTIONS[kind].names if name not in ("id", "scores")]


def score(source: Path, target: Path, version: registry.Version, prefix: str = "", ray: bool | None = None) -> int:
    """Score every row of `source` (a Parquet file) into the Parquet file `target`; returns the number of rows.

    All columns and the order of the rows are kept. `ray` turns Ray Data on or off; None uses it from ROWS_FOR_RAY rows.
    `target` appears only when it is complete. An existing file is replaced only if the same job wrote it: the same
    source, name of the model and prefix.
    """
    file, folder = _opened(source), registry.folder(version)
    task = Task.load(folder)
    added = [f"{prefix}{name}" for name in (*answer_columns(task.kind), *VERSION_COLUMNS)]
    taken = [name for name in added if name in file.schema_arrow.names]
    if taken:
        raise InputError(f"{source}: it already has a column {taken[0]!r}; give the new columns a prefix")
    _check(source, task)
    job = job_of(source, version.name, prefix)
    with paths.fresh_file(target) as aside:
        refuse_others(target, job)
        arguments: dict[str, Any] = {
            "name": version.name,
            "version": version.version,
            "prefix": prefix,
            "folder": str(folder.resolve()),
        }
        rows = file.metadata.num_rows
        on_ray = rows >= ROWS_FOR_RAY if ray is None else ray
        scored = _on_ray(source, arguments) if on_ray else scored_here(source, Scorer(**arguments))
        _write(aside, scored, job, rows, provenance.content_digest(folder))
    return rows


def _opened(source: Path) -> pq.ParquetFile:
    """The Parquet file at `source`, whatever its suffix. Raises InputError, with the forms that are read, if not."""
    try:
        return tables.open_parquet(source)
    except NoFileError:
        raise
    except InputError:
        if source.suffix and partitions.suffix(source.name) not in partitions.FORMS:
            raise InputError(
                f"{source}: not a Parquet file; .parquet, .csv and .jsonl are read: convert it, or unpack it"
            ) from None
        raise


def _check(source: Path, task: Task) -> None:
    """Check all rows before any is scored. Raises InputError, with the row, if one lacks an input of the task."""
    done = 0
    try:
        row_checks.require_columns(tables.open_parquet(source).schema_arrow, task)
        for batch in tables.read_batches(source, schema.INPUTS[task.kind]):
            inputs(row_checks.inputs(pa.Table.from_batches([batch]), task), task, done)
            done += batch.num_rows
    except InputError as error:
        raise InputError(f"{source}: {error}") from None


def job_of(source: Path, model: str, prefix: str) -> dict[str, str]:
    """The job that scores a file, as the metadata of its answers names it."""
    return {"source": str(source.resolve()), "model": model, "prefix": prefix}


def refuse_others(target: Path, job: dict[str, str], relative: Path | None = None) -> None:
    """Raise InputError if `target` exists and `job` did not write it.

    `relative`: the path of its source in a checkout that may have lain elsewhere then.
    """
    if not (target.exists() or target.is_symlink()):
        return
    if target.exists() and not target.is_file():  # reading a pipe would never end
        raise InputError(f"{target}: exists, and is not from scoring; name another target")
    try:
        written = json.loads((pq.read_metadata(target).metadata or {}).get(JOB, b"null"))
    except (pa.ArrowException, OSError, ValueError):
        written = None
    if relative and isinstance(written, dict) and str(written.get("source")).endswith(f"/{relative}"):
        written |= {"source": job["source"]}
    if written != job:
        by = f"{job['model']} with the prefix {job['prefix']!r}" if job["prefix"] else job["model"]
        raise InputError(f"{target}: exists, and is not from scoring {job['source']} by {by}; move it, or name another")


def model_digest(target: Path) -> str:
    """The digest of the model's files by which a file was scored; "" for one that does not say it."""
    return (tables.open_parquet(target).schema_arrow.metadata or {}).get(MODEL, b"").decode(errors="replace")


def _write(aside: Path, scored: Iterator[pa.Table], job: dict[str, str], rows: int, digest: str) -> None:
    """Write all tables to one file, with the job and the model in its metadata, in row groups of tables.GROUP_BYTES."""
    first = next(scored)
    origin = {JOB: json.dumps(job).encode(), MODEL: digest.encode()}
    schema = first.schema.with_metadata({**(first.schema.metadata or {}), **origin})
    with pq.ParquetWriter(aside, schema, compression="zstd") as writer, progress("scoring", rows, "rows") as advance:
        done, pending = 0, list[pa.Table]()
        for table in chain([first], scored):
            pending.append(table.cast(schema))
            done += table.num_rows
            if sum(part.nbytes for part in pending) >= tables.GROUP_BYTES:
                _write_group(writer, pending)
                pending = []
            advance(done)
        _write_group(writer, pending)
    if done != rows:
        raise InputError(f"{job['source']}: {done:,} of {rows:,} rows were scored; did it change meanwhile?")


def _write_group(writer: pq.ParquetWriter, parts: list[pa.Table]) -> None:
    """Write these tables as one row group; none if they have no rows."""
    if any(part.num_rows for part in parts):
        writer.write_table(pa.concat_tables(parts))


def scored_here(source: Path, scorer: Scorer) -> Iterator[pa.Table]:
    """The scored rows, computed in this process; the first table has none, but the columns."""
    yield scorer(tables.open_parquet(source).schema_arrow.empty_table())
    for batch in tables.read_batches(source, size=BATCH_ROWS):
        yield scorer(pa.Table.from_batches([batch]))


def _on_ray(source: Path, arguments: dict[str, Any]) -> Iterator[pa.Table]:
    """The scored rows from Ray Data's actors, which hold the model; one core is left for reading and writing.

    The first table has the columns but no rows. With only one core, or if the file has no suffix, the rows are scored
    in this process.
    """
    workers.start()
    import ray.data

    actors = int(ray.cluster_resources().get("CPU", 1)) - 1
    if not actors or not source.suffix:
        yield from scored_here(source, Scorer(**arguments))
        return
    yield Scorer(**arguments)(tables.open_parquet(source).schema_arrow.empty_table())
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    # Ray would derive a format from the file's suffix, and columns from folder names such as day=1
    named: dict[str, Any] = {"partitioning": None, "file_extensions": [source.suffix.removeprefix(".")]}
    rows = ray.data.read_parquet(str(source.resolve()), **named)
    scored = rows.map_batches(
        Scorer,
        fn_constructor_kwargs=arguments,
        batch_format="pyarrow",
        batch_size=BATCH_ROWS,
        compute=ray.data.ActorPoolStrategy(size=actors),
    )
    try:
        yield from scored.iter_batches(batch_format="pyarrow", batch_size=None)
    except ray.exceptions.RayError as error:
        raise InputError(f"{source}: Ray could not score it: {one_line(error)}") from error
