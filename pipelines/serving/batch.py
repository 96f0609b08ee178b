"""Batch scoring: Parquet in, the same rows out with what the model says, and which model said so."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from pipelines.core import paths, schema, tables
from pipelines.core.errors import InputError
from pipelines.core.progress import progress
from pipelines.core.task import Task
from pipelines.inference.predictor import Predictor
from pipelines.tracking import registry
from pipelines.training import workers

STAMP = ("model_name", "model_version")
ROWS_FOR_RAY = 200_000  # below this, starting Ray Data costs more than it saves
BATCH_ROWS = 2048


class Scorer:
    """A predictor that stamps its rows; the same class works in this process and in Ray Data's actors."""

    def __init__(self, name: str, version: int, prefix: str = "", folder: str = "") -> None:
        self.stamp, self.prefix = registry.Version(name, version, {}), prefix
        self.predictor = Predictor.load(Path(folder) if folder else registry.folder(self.stamp))

    def __call__(self, rows: pa.Table) -> pa.Table:
        answers = self.predictor.predict(rows)
        count = rows.num_rows
        added = {
            **{name: answers.column(name) for name in _says(self.predictor.task.kind)},
            "model_name": pa.array([self.stamp.name] * count, pa.string()),
            "model_version": pa.array([self.stamp.version] * count, pa.int64()),
        }
        for name, column in added.items():
            rows = rows.append_column(f"{self.prefix}{name}", column)
        return rows


def _says(kind: str) -> list[str]:
    """The columns of predictions that are written; `scores` has as many numbers as there are labels, and is not."""
    return [name for name in schema.PREDICTIONS[kind].names if name not in ("id", "scores")]


def score(source: Path, target: Path, version: registry.Version, prefix: str = "", ray: bool | None = None) -> int:
    """Score every row of `source` (a Parquet file) into `target`; returns their number.

    All columns are kept. `ray` chooses Ray Data; None takes it from ROWS_FOR_RAY rows on. `target` appears only when
    it is whole: a file, or with Ray Data a folder of Parquet files.
    """
    file = tables.open_parquet(source)
    added = [f"{prefix}{name}" for name in (*_says(Task.load(registry.folder(version)).kind), *STAMP)]
    taken = [name for name in added if name in file.schema_arrow.names]
    if taken:
        raise InputError(f"{source}: it has a column {taken[0]!r} already; a prefix for the new columns makes room")
    if target.exists() and target.resolve() == source.resolve():
        raise InputError(f"{target}: the rows are read from there; write the scored ones elsewhere")
    rows = file.metadata.num_rows
    if ray or (ray is None and rows >= ROWS_FOR_RAY):
        _on_ray(source, target, version, prefix)
    else:
        _here(file, target, Scorer(version.name, version.version, prefix))
    return rows


def _here(file: pq.ParquetFile, target: Path, scorer: Scorer) -> None:
    """Score in this process, a batch at a time."""

    def scored() -> Iterator[pa.Table]:
        with progress("scoring", file.metadata.num_rows, "rows") as advance:
            done = 0
            for batch in file.iter_batches(BATCH_ROWS):
                yield scorer(pa.Table.from_batches([batch]))
                done += batch.num_rows
                advance(done)

    with paths.fresh_file(target) as aside:
        empty = scorer(file.schema_arrow.empty_table())
        with pq.ParquetWriter(aside, empty.schema, compression="zstd") as writer:
            for table in scored():
                writer.write_table(table.cast(empty.schema))


def _on_ray(source: Path, target: Path, version: registry.Version, prefix: str) -> None:
    """Score with Ray Data: actors hold the model, one core is left for reading and writing."""
    import ray.data

    if not ray.is_initialized():
        ray.init(workers.address(), include_dashboard=False, runtime_env=workers.runtime_environment())
    actors = max(1, int(ray.cluster_resources().get("CPU", 1)) - 1)
    arguments: dict[str, Any] = {"name": version.name, "version": version.version, "prefix": prefix}
    arguments["folder"] = str(registry.folder(version).resolve())
    scored = ray.data.read_parquet(str(source.resolve())).map_batches(
        Scorer,
        fn_constructor_kwargs=arguments,
        batch_format="pyarrow",
        batch_size=BATCH_ROWS,
        compute=ray.data.ActorPoolStrategy(size=actors),
    )
    with paths.fresh_folder(target) as out:
        scored.write_parquet(str(out.resolve()))
