"""A scoring job against a bare loop of the same runtime, which tokenizes, runs and writes; and its audit's cost.

The model is encoders/mini-ja with a new head, exported; rows are titles of the samples, repeated. Contenders take
turns over the same Parquet files with the same threads. The bare loop takes 32 rows as they come, checks nothing, and
writes one file. A job reads all rows twice, digests them, and flushes every file. The process is warm: both exclude
the loading of the model, which `load` shows.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path

import harness

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import serve

from pipelines.core.ragged import Ragged, model_inputs
from pipelines.inference.predictor import Predictor
from pipelines.scoring import audit, job, job_record, manifest, partition_scoring, partitions
from pipelines.scoring.quarantine import Limit
from pipelines.tracking import registry

FILES = 4
ROWS, QUICK_ROWS = 40_000, 4_000
BARE_ROWS = 32
TOKENS = (512, 1024, 2048, 4096)  # of a batch


def write_rows(source: Path, rows: int) -> None:
    source.mkdir()
    texts = serve.titles()
    for number in range(FILES):
        some = [texts[(number + 7 * i) % len(texts)] for i in range(rows // FILES)]
        pq.write_table(pa.table({"text": some, "n": range(len(some))}), source / f"{number}.parquet")


def bare(predictor: Predictor, source: Path, target: Path) -> None:
    """Tokenize, run, write: labels and scores of every row."""
    schema = pa.schema([("text", pa.string()), ("n", pa.int64()), ("label", pa.string()), ("score", pa.float32())])
    with pq.ParquetWriter(target, schema, compression="zstd") as writer:
        for file in sorted(source.iterdir()):
            rows = pq.read_table(file)
            tables = []
            for start in range(0, len(rows), BARE_ROWS):
                some = rows.slice(start, BARE_ROWS)
                ids = predictor.encode(some).column("input_ids")
                ragged = Ragged(ids.values.to_numpy(), ids.offsets.to_numpy().astype(np.int64))
                inputs = model_inputs(ragged, np.arange(len(some)), None, predictor.tokenizer.pad_id, 512)
                inputs["token_type_ids"] = np.zeros_like(inputs["input_ids"])
                logits = predictor.runtime.logits(inputs)
                powers = np.exp(logits - logits.max(axis=1, keepdims=True))
                best = powers.argmax(axis=1)
                scores = (powers / powers.sum(axis=1, keepdims=True)).max(axis=1)
                labels = pa.array([predictor.task.labels[i] for i in best])
                tables.append(some.append_column("label", labels).append_column("score", pa.array(scores)))
            writer.write_table(pa.concat_tables(tables).cast(schema))


def scored(folder: Path, source: Path, target: Path) -> job.Outcome:
    """A job from its first check to its manifest."""
    shutil.rmtree(target, ignore_errors=True)
    (target / job_record.PARTIAL).mkdir(parents=True)
    found, version = partitions.among(source), registry.Version("titles", 1, {})
    record = job.begin(source, found, target, version, folder, job.Options(), Limit(job.MAX_BAD))
    return job.finish(record, found, target, folder)


def bookkeeping(folder: Path, source: Path, target: Path) -> None:
    """All that a job does beside scoring: the check of all rows, digests, flushes and entries."""
    shutil.rmtree(target, ignore_errors=True)
    (target / job_record.PARTIAL).mkdir(parents=True)
    found, version = partitions.among(source), registry.Version("titles", 1, {})
    record = job.begin(source, found, target, version, folder, job.Options(), Limit(job.MAX_BAD))
    for number, (planned, partition) in enumerate(zip(record.partitions, found, strict=True)):
        assert not job_record.is_changed(planned, partition)
        file = target / job_record.PARTIAL / "rows.parquet"
        shutil.copyfile(partition.path, file)
        entry = partition_scoring.stamped(record, manifest.PARTITION, planned.name, planned.digest, file, str(number))
        manifest.write(target, f"{number:06d}", entry, target / job_record.PARTIAL)


def main() -> None:
    options = harness.arguments(__doc__ or "")
    rows = QUICK_ROWS if options.quick else ROWS
    repeats = 1 if options.quick else 5
    with tempfile.TemporaryDirectory() as place:
        folder, source, target = serve.model(Path(place)), Path(place) / "in", Path(place) / "out"
        write_rows(source, rows)
        began = time.perf_counter()
        predictor = Predictor.load(folder)
        load = time.perf_counter() - began
        table = pa.concat_tables(pq.read_table(file) for file in sorted(source.iterdir()))
        predictor.predict(table.slice(0, 64))

        def with_tokens(tokens: int) -> None:
            predictor.batch_tokens = tokens
            for start in range(0, rows, partition_scoring.ROWS):
                predictor.predict(table.slice(start, partition_scoring.ROWS))

        by_tokens = harness.in_turn({str(n): lambda n=n: with_tokens(n) for n in TOKENS}, repeats)
        seconds = harness.in_turn(
            {
                "bare": lambda: bare(predictor, source, Path(place) / "bare.parquet"),
                "job": lambda: scored(folder, source, target),
                "bookkeeping": lambda: bookkeeping(folder, source, Path(place) / "books"),
                "verify": lambda: audit.audit(target),
            },
            repeats,
        )
    ours = [taken - load for taken in seconds["job"]]
    claims = [
        harness.ratio("job_vs_bare_loop_of_the_same_runtime", 0.9, seconds["bare"], ours),
        share("manifests_and_digests_of_a_job", 0.02, seconds["bookkeeping"], seconds["job"]),
        share("verify_of_a_job", 0.05, seconds["verify"], seconds["job"]),
    ]
    rates = {f"{n} tokens a batch": round(rows / min(taken)) for n, taken in by_tokens.items()}
    rates |= {name: round(rows / min(taken)) for name, taken in seconds.items()}
    print(rates)
    harness.report(claims, ("onnxruntime", "pyarrow", "tokenizers"), options.json, rows=rows, rows_per_second=rates)


def share(name: str, aim: float, part: list[float], whole: list[float]) -> harness.Claim:
    """The time of a part as a share of the whole's."""
    rounds = [round(a / b, 4) for a, b in zip(part, whole, strict=True)]
    measured = sorted(rounds)[len(rounds) // 2]
    return harness.Claim(name, aim, measured, (min(rounds), max(rounds)), measured <= aim)


if __name__ == "__main__":
    main()
