"""A scoring job against a bare loop of the same runtime, which tokenizes, runs and writes; increments, states, audit.

The model is encoders/mini-ja with a new head, exported, in one thread; rows are titles of the samples with a number, so
that no two are the same. Contenders take turns over the same Parquet files. The bare loop takes 32 rows as they come,
checks nothing, and writes one file. A job reads all rows twice, digests them, and flushes every file. Times are seconds
of a core, so that other programs on the machine count little. What loading the model takes is measured in each round
and left out. The head alone is another head on the same encoder, from the states that a job has kept.
benchmarks/score_processes.py compares several processes with one.
"""

import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import harness

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import serve

from pipelines.core import threads
from pipelines.core.ragged import Ragged, model_inputs
from pipelines.inference import encoder_states
from pipelines.inference.encoder_states import DividedModel
from pipelines.inference.predictor import Predictor
from pipelines.measurement.interleaved_worker import peak_mb
from pipelines.scoring import audit, job, job_folders, job_record, manifest, partition_scoring, partitions
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.quarantine import Limit
from pipelines.tracking import registry

FILES = 4
ROWS, QUICK_ROWS = 10_000, 2_000
LARGE = 10  # times as many rows, for linearity and memory
REPEATS, QUICK_REPEATS = 5, 1
BARE_ROWS = 32
CHANGED = 100  # every so many rows one is changed


def write_rows(source: Path, rows: int, changed: int = 0) -> None:
    """Files of rows; of every `changed` rows the first has another text."""
    source.mkdir()
    titles = serve.titles()
    for number in range(FILES):
        first = rows // FILES * number
        texts = [f"{titles[i % len(titles)]} {i}" for i in range(first, first + rows // FILES)]
        if changed:
            texts[::changed] = [f"{text} changed" for text in texts[::changed]]
        pq.write_table(pa.table({"text": texts, "n": range(len(texts))}), source / f"{number}.parquet")


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


def scored(
    folder: Path, source: Path, target: Path, since: str = "", workers: int = 1, states: bool = False
) -> job.Outcome:
    """A job from its first check to its manifest."""
    shutil.rmtree(target, ignore_errors=True)
    (target / job_folders.PARTIAL).mkdir(parents=True)
    files, version = partitions.among(Folder(source)), registry.Version("titles", 1, {})
    options, limit = job.Options(since=since, states=states), Limit(job.MAX_BAD)
    record = job.begin(Folder(source), files, Folder(target), version, folder, options, limit)
    return job.finish(record, files, Folder(target), folder, workers)


def alone(folder: Path, source: Path, target: Path) -> tuple[float, float]:
    """A job in a process of its own: its seconds of a core, and its largest memory in MB."""
    threads.use(1)
    began = time.process_time()
    scored(folder, source, target)
    return time.process_time() - began, peak_mb()


def in_new_process(*arguments: Path) -> tuple[float, float]:
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(alone, *arguments).result()


def bookkeeping(folder: Path, source: Path, target: Path) -> None:
    """All that a job does beside scoring: the check of all rows, digests, flushes and entries."""
    shutil.rmtree(target, ignore_errors=True)
    (target / job_folders.PARTIAL).mkdir(parents=True)
    found, version = partitions.among(Folder(source)), registry.Version("titles", 1, {})
    record = job.begin(Folder(source), found, Folder(target), version, folder, job.Options(), Limit(job.MAX_BAD))
    for number, (planned, partition) in enumerate(zip(record.partitions, found, strict=True)):
        assert not job_record.is_changed(planned, partition)
        file = target / job_folders.PARTIAL / "rows.parquet"
        shutil.copyfile(partition.path, file)
        entry = partition_scoring.entry_of(record, manifest.PARTITION, planned.name, planned.digest, file, str(number))
        manifest.write(Folder(target), f"{number:06d}", entry)


def load_divided(folder: Path) -> None:
    """Load a model and its head, and digest its encoder, as a job does that answers from states."""
    encoder_states.digest(folder)
    DividedModel(Predictor.load(folder))


def rounds(folder: Path, other: Path, place: Path, repeats: int) -> dict[str, list[float]]:
    """Seconds of a core of the loop, the job and its parts; those of jobs are without the loading of the model."""
    source, target, states = place / "in", place / "out", place / "states-out"
    predictor = Predictor.load(folder)
    scored(folder, source, target)
    scored(folder, source, states, states=True)
    seconds = harness.in_turn(
        {
            "load": lambda: Predictor.load(folder),
            "bare": lambda: bare(predictor, source, place / "bare.parquet"),
            "job": lambda: scored(folder, source, target),
            "changed": lambda: scored(folder, place / "changed", place / "changed-out", since=str(target)),
            "load divided": lambda: load_divided(other),
            "keeping states": lambda: scored(folder, source, place / "kept-out", states=True),
            "head alone": lambda: scored(other, source, place / "head-out", since=str(states)),
            "bookkeeping": lambda: bookkeeping(folder, source, place / "books"),
            "verify": lambda: audit.audit(target),
        },
        repeats,
        time.process_time,
    )
    for name in ("job", "changed"):
        seconds[name] = [taken - load for taken, load in zip(seconds[name], seconds["load"], strict=True)]
    for name in ("keeping states", "head alone"):
        seconds[name] = [taken - load for taken, load in zip(seconds[name], seconds["load divided"], strict=True)]
    return seconds


def bytes_of_a_row(target: Path, rows: int) -> tuple[float, float]:
    """The bytes of a row's state and of its answers in the folder of a job."""
    states, answers = (sum(file.stat().st_size for file in target.rglob(f"*{end}")) for end in (".arrow", ".parquet"))
    return round(states / rows, 1), round(answers / rows, 1)


def claims_of(
    folder: Path, other: Path, place: Path, rows: int, repeats: int
) -> tuple[list[harness.Claim], dict[str, float]]:
    """All claims, and the medians of what was measured."""
    seconds = rounds(folder, other, place, repeats)
    small_cpu, small_mb = in_new_process(folder, place / "in", place / "small-out")
    large_cpu, large_mb = in_new_process(folder, place / "large", place / "large-out")
    load = statistics.median(seconds["load"])
    growth = (large_cpu - load) / (small_cpu - load) / LARGE
    claims = [
        harness.ratio("job_vs_bare_loop_of_the_same_runtime", 0.9, seconds["bare"], seconds["job"]),
        share("one_percent_of_rows_changed_of_a_full_job", 0.03, seconds["changed"], seconds["job"]),
        harness.ratio("head_alone_changed_vs_a_full_run", 20, seconds["job"], seconds["head alone"]),
        harness.ratio("job_that_keeps_states_vs_one_that_does_not", None, seconds["job"], seconds["keeping states"]),
        share("checks_digests_and_manifests_of_a_job", 0.02, seconds["bookkeeping"], seconds["job"]),
        share("verify_of_a_job", 0.05, seconds["verify"], seconds["job"]),
        at_most("cost_of_a_row_of_10_times_as_many", 1.05, growth),
        at_most("memory_of_10_times_as_many_rows_gb", 1.5, large_mb / 1024),
        at_most("memory_of_10_times_as_many_rows_vs_fewer", 1.1, large_mb / small_mb),
    ]
    facts = {
        f"{name.replace(' ', '_')}_cpu_seconds": round(statistics.median(taken), 3) for name, taken in seconds.items()
    }
    facts["rows_per_second_of_a_core"] = round(rows / statistics.median(seconds["job"]))
    facts["bytes_of_a_state"], facts["bytes_of_an_answer"] = bytes_of_a_row(place / "states-out", rows)
    return claims, facts | {"small_mb": round(small_mb), "large_mb": round(large_mb)}


def main() -> None:
    options = harness.arguments(__doc__ or "")
    rows, repeats = (QUICK_ROWS, QUICK_REPEATS) if options.quick else (ROWS, REPEATS)
    threads.use(1)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "other").mkdir()
        folder, other = serve.model(place), serve.model(place / "other")
        write_rows(place / "in", rows)
        write_rows(place / "changed", rows, CHANGED)
        write_rows(place / "large", rows * LARGE)
        claims, facts = claims_of(folder, other, place, rows, repeats)
        print(facts)
    harness.report(claims, ("onnxruntime", "pyarrow", "tokenizers"), options.json, rows=rows, facts=facts)


def at_most(name: str, aim: float, measured: float) -> harness.Claim:
    return harness.Claim(name, aim, round(measured, 3), (round(measured, 3), round(measured, 3)), measured <= aim)


def share(name: str, aim: float, part: list[float], whole: list[float]) -> harness.Claim:
    """The time of a part as a share of the whole's."""
    shares = [round(a / b, 4) for a, b in zip(part, whole, strict=True)]
    measured = round(statistics.median(shares), 4)
    return harness.Claim(name, aim, measured, (min(shares), max(shares)), measured <= aim)


if __name__ == "__main__":
    main()
