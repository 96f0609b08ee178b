"""Prediction on a GPU: rows per second of the predictor and of a scoring job, beside transformers.pipeline.

The model is BERT-base's shape with random weights and the vocabulary of encoders/mini-en; rows are 8 to 60 random words
of it. All contenders tokenize, run the model, and return a label and a score for each row. `pipeline` has batches of 64
rows, as its documentation recommends for a GPU. Without a GPU all sizes are tiny: that shows that it runs, and nothing
else.
"""

import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import harness

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import torch
from transformers import BertConfig, BertForSequenceClassification, pipeline

from pipelines.checkpoints import folder as model_folder
from pipelines.core.task import Task
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import PRECISIONS
from pipelines.measurement import row_exactness
from pipelines.scoring import job, job_folders, partitions
from pipelines.scoring.job_folders import Folder
from pipelines.scoring.quarantine import Limit
from pipelines.tracking import registry

CUDA = torch.cuda.is_available()
ROOT = Path(__file__).resolve().parents[1]
LABELS = tuple(f"class-{number}" for number in range(15))
LAYERS, HIDDEN = (12, 768) if CUDA else (2, 64)
FEW = 4096  # tokens of a batch on a CPU
PIPELINE_ROWS, JOB_FILES = 64, 4


def model(place: Path) -> Path:
    """A classifier of BERT-base's shape."""
    encoder = ROOT / "encoders/mini-en"
    torch.manual_seed(1)
    shape = {"num_hidden_layers": LAYERS, "hidden_size": HIDDEN, "num_attention_heads": HIDDEN // 64}
    labels = dict(enumerate(LABELS))
    config = BertConfig(**shape, intermediate_size=4 * HIDDEN, vocab_size=len(words()), id2label=labels)
    task = Task("titles", "single", LABELS, "accuracy", language="en")
    place.mkdir()
    model_folder.save(BertForSequenceClassification(config), place, encoder, task)
    return place


def words() -> list[str]:
    return (ROOT / "encoders/mini-en/vocab.txt").read_text(encoding="utf-8").splitlines()


def texts(count: int) -> list[str]:
    rng = np.random.default_rng(0)
    plain = np.array([word for word in words() if word.isalpha()])
    return [" ".join(rng.choice(plain, length)) for length in rng.integers(8, 61, count)]


def stages(predictor: Predictor, rows: pa.Table, size: int) -> dict[str, float]:
    """Rows per second of each stage of a prediction, and tokens per second of the model."""
    seconds = dict.fromkeys(("encode", "forward", "decode"), 0.0)
    tokens = 0
    for start in range(0, len(rows), size):
        some, times = rows.slice(start, size), [time.perf_counter()]
        encoded = predictor.encode(some)
        times.append(time.perf_counter())
        (outputs,) = predictor.forward([encoded])
        times.append(time.perf_counter())
        predictor.decode(some, encoded, outputs)
        times.append(time.perf_counter())
        tokens += len(encoded.column("input_ids").values)
        for name, begin, end in zip(seconds, times, times[1:], strict=False):
            seconds[name] += end - begin
    rates = {f"{name}, rows/s": round(len(rows) / taken) for name, taken in seconds.items()}
    return rates | {"forward, tokens/s": round(tokens / seconds["forward"])}


def predict(predictor: Predictor, rows: pa.Table, size: int) -> None:
    for start in range(0, len(rows), size):
        predictor.predict(rows.slice(start, size))


def by_pipeline(folder: Path, kind: torch.dtype) -> Callable[[list[str]], Any]:
    device = 0 if CUDA else -1
    classify = pipeline("text-classification", str(folder), device=device, dtype=kind, batch_size=PIPELINE_ROWS)
    return lambda some: classify(some, truncation=True)


def scored(folder: Path, source: Path, target: Path) -> None:
    """A job from its first check to its manifest, the loading of the model included."""
    shutil.rmtree(target, ignore_errors=True)
    (target / job_folders.PARTIAL).mkdir(parents=True)
    among, version = partitions.among(Folder(source)), registry.Version("titles", 1, {})
    record = job.begin(Folder(source), among, Folder(target), version, folder, job.Options(), Limit(job.MAX_BAD))
    job.finish(record, among, Folder(target), folder)


def distance(one: Predictor, other: Predictor, rows: pa.Table) -> float:
    """The largest difference of a logit."""
    (a,), (b,) = (predictor.forward([predictor.encode(rows)]) for predictor in (one, other))
    return float(np.abs(np.stack(a) - np.stack(b)).max())


class Contenders:
    """The predictor in both precisions, with small batches, a scoring job, and transformers.pipeline."""

    def __init__(self, place: Path, count: int, size: int) -> None:
        self.folder, self.source, self.target = model(place / "model"), place / "in", place / "out"
        self.rows, self.size = pa.table({"text": texts(count)}), size
        self.source.mkdir()
        file_rows = count // JOB_FILES
        for number in range(JOB_FILES):
            pq.write_table(self.rows.slice(number * file_rows, file_rows), self.source / f"{number}.parquet")
        self.predictors = {precision: Predictor.load(self.folder, precision=precision) for precision in PRECISIONS}
        self.small = Predictor.load(self.folder)
        self.small.batch_tokens = FEW
        self.some = self.rows.column("text").to_pylist()[: count // 8]
        self.pipelines = {"fp32": by_pipeline(self.folder, torch.float32)}
        self.pipelines["bf16"] = by_pipeline(self.folder, torch.bfloat16)

    def rates(self, repeats: int) -> dict[str, list[float]]:
        """Rows per second of each contender in each round."""
        for predictor in (*self.predictors.values(), self.small):
            predict(predictor, self.rows.slice(0, 2 * self.size), self.size)
        work: dict[str, tuple[int, Callable[[], Any]]] = {
            "fp32, small batches": (len(self.rows), lambda: predict(self.small, self.rows, self.size)),
            "job, fp32": (len(self.rows), lambda: scored(self.folder, self.source, self.target)),
        }
        for name, predictor in self.predictors.items():
            work[name] = (len(self.rows), lambda p=predictor: predict(p, self.rows, self.size))
            work[f"pipeline, {name}"] = (len(self.some), lambda p=self.pipelines[name]: p(self.some))
        seconds = harness.in_turn({name: run for name, (_, run) in work.items()}, repeats)
        return {name: [work[name][0] / taken for taken in times] for name, times in seconds.items()}

    def facts(self) -> dict[str, float]:
        """The rates of each stage, and the distances between logits."""
        numbers: dict[str, float] = {}
        for name, predictor in self.predictors.items():
            numbers |= {f"{name}: {key}": value for key, value in stages(predictor, self.rows, self.size).items()}
            alone = row_exactness.largest_difference(predictor, sequences=24, partitions=4)
            numbers[f"{name}: largest difference of a row alone and in company"] = alone
        plain, some = self.predictors["fp32"], self.rows.slice(0, self.size)
        numbers["bf16 against fp32: largest difference of a logit"] = distance(plain, self.predictors["bf16"], some)
        if CUDA:
            numbers["GPU against CPU, fp32: largest difference of a logit"] = against_cpu(plain, some.slice(0, 128))
        return numbers


def main() -> None:
    options = harness.arguments(__doc__ or "")
    count, repeats = (65_536 if not options.quick else 8_192, 3) if CUDA else (96, 1)
    with tempfile.TemporaryDirectory() as place:
        contenders = Contenders(Path(place), count, 2048 if CUDA else 32)
        rates = contenders.rates(repeats)
        facts = {f"{name}: rows/s": float(round(statistics.median(rate))) for name, rate in rates.items()}
        facts |= contenders.facts()
    claims = [ratio(f"predict_{name}_vs_pipeline", rates[name], rates[f"pipeline, {name}"]) for name in PRECISIONS]
    claims.append(ratio("predict_bf16_vs_fp32", rates["bf16"], rates["fp32"]))
    claims.append(ratio("job_vs_predict_fp32", rates["job, fp32"], rates["fp32"]))
    device = torch.cuda.get_device_name() if CUDA else "no GPU: tiny sizes, no results"
    for name, value in facts.items():
        print(f"{name}: {value:,}")
    harness.report(claims, ("torch", "transformers", "pyarrow"), options.json, device=device, rows=count, facts=facts)


def against_cpu(predictor: Predictor, rows: pa.Table) -> float:
    """The largest difference of a logit between the GPU and the CPU."""
    encoded = predictor.encode(rows)
    (there,) = predictor.forward([encoded])
    runtime: Any = predictor.runtime
    model, device = runtime.model, runtime.device
    runtime.device = torch.device("cpu")
    model.to("cpu")
    (here,) = predictor.forward([encoded])
    runtime.device = device
    model.to(device)
    return float(np.abs(np.stack(there) - np.stack(here)).max())


def ratio(name: str, ours: list[float], theirs: list[float]) -> harness.Claim:
    rounds = sorted(round(a / b, 3) for a, b in zip(ours, theirs, strict=True))
    return harness.Claim(name, None, rounds[len(rounds) // 2], (rounds[0], rounds[-1]), True)


if __name__ == "__main__":
    main()
