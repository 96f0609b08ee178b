"""A cascade against its champion: rows a second, and the labels that it keeps on rows that nobody has seen.

The rows are SST-2's in BERTLINE_MIRROR. Champion and student learn from 10,000 of them, 20,000 others choose the
threshold, and 20,000 more check the promise. The student is the champion's lowest layer, fine-tuned on its
probabilities.

    python benchmarks/cascade.py --json benchmarks/results/cascade.json
"""

from pathlib import Path
from typing import Any

import harness
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from harness import Claim

from pipelines.core import paths
from pipelines.evaluation import agreement
from pipelines.inference.predictor import Predictor
from pipelines.measurement import cascade_folder, interleaved
from pipelines.measurement.cascade_folder import Goal
from pipelines.stages import compress, encode, evaluate, export, finetune, ingest, prepare

ROOT = Path(__file__).resolve().parents[1]
TRAINED, CHOSEN, CHECKED = 10_000, 20_000, 20_000  # rows
GOALS = (0.995, 0.99)
FASTER = 4.0  # the aim: rows a second, as a multiple of the champion's
FIT = {"epochs": 2, "batch_size": 32, "learning_rate": 2e-4}
PARAMS: dict[str, Any] = {
    "ingest": {"sst2": {"corpus": "glue", "edition": "SST-2"}},
    "prepare": {
        "sst2": {"corpus": "glue", "source": "artifacts/raw/sst2", "task": "SST-2"},
        "own": {
            "corpus": "custom", "kind": "single", "source": "own", "format": "parquet", "language": "en",
            "files": {"train": "train.parquet", "test": "test.parquet"},
        },
    },
    "encode": {"own": {"task": "own", "vocab": "encoders/mini-en", "max_length": 128}},
    "finetune": {"champion": FIT | {"encoder": "encoders/mini-en", "data": "own", "dev": "test"}},
    "compress": {
        "student": FIT | {
            "teacher": "champion", "data": "own", "method": "drop_layers", "layers": 3, "soft": 1.0, "epochs": 3,
            "dev": "test",
        }
    },
    "evaluate": {run: {"task": "own"} for run in ("champion", "student")},
    "export": {run: {} for run in ("champion", "student")},
    "resources": {"workers": 0},
}  # fmt: skip


def rows() -> dict[str, pa.Table]:
    """Different rows of SST-2 for training, for the scores, for the choice of the threshold and for its check."""
    ingest.main("sst2")
    prepare.main("sst2")
    table = pq.read_table(paths.rows("sst2") / "train.parquet", columns=["text", "label"])
    _, first = np.unique(np.array(table.column("text").to_pylist()), return_index=True)
    order = np.random.default_rng(1).permutation(first)
    parts, start = {}, 0
    for name, count in (("train", TRAINED), ("test", 2000), ("chosen", CHOSEN), ("checked", CHECKED)):
        parts[name] = table.take(order[start : start + count])
        start += count
    return parts


def trained(parts: dict[str, pa.Table]) -> None:
    """Train champion and student, and export both."""
    Path("own").mkdir()
    for split in ("train", "test"):
        pq.write_table(parts[split], f"own/{split}.parquet")
    prepare.main("own")
    encode.main("own")
    finetune.main("champion")
    compress.main("student")
    for run in ("champion", "student"):
        evaluate.main(run)
        export.main(run)


def labels(folder: Path, table: pa.Table) -> list[str]:
    return Predictor.load(folder).predict(table.select(["text"])).column("label").to_pylist()


def claims(parts: dict[str, pa.Table], rounds: int) -> list[Claim]:
    champion, student = paths.onnx("champion"), paths.onnx("student")
    folders, measured = {"champion": champion, "student": student}, list[Claim]()
    expected = labels(champion, parts["checked"])
    for goal in GOALS:
        out = Path(f"cascade-{goal}")
        out.mkdir()
        batches = parts["chosen"].select(["text"]).to_batches(max_chunksize=2048)
        composition, _ = cascade_folder.compose(student, champion, batches, Goal(goal), 1, out)
        differing = sum(a != b for a, b in zip(labels(out, parts["checked"]), expected, strict=True))
        share = 1 - differing / CHECKED
        bounds = [1 - bound(differing, CHECKED, 0.975) for bound in (agreement.upper_bound, agreement.lower_bound)]
        name = f"cascade at {goal:.1%}"
        measured.append(Claim(f"{name}: share of labels kept on unseen rows", goal, round(share, 4),
                           (round(bounds[0], 4), round(bounds[1], 4)), share >= goal))  # fmt: skip
        measured.append(Claim(f"{name}: share of rows that the student answers", None, round(composition.by_student, 3),
                           (round(composition.by_student, 3),) * 2, True))  # fmt: skip
        folders[name] = out
    split_file = paths.rows("own") / "test.parquet"
    for name, compared in interleaved.compare(folders, split_file, rounds, threads=1).items():
        if name != "champion":
            median, least, greatest = (round(ratio, 2) for ratio in compared.throughput)
            aim = FASTER if name.startswith("cascade") else None
            reached = aim is None or median >= aim
            measured.append(Claim(f"{name}: rows/s of the champion's", aim, median, (least, greatest), reached))
    return measured


def main() -> None:
    options = harness.arguments(__doc__ or "")
    to = options.json.resolve() if options.json else None
    with harness.empty_folder():
        Path("encoders").symlink_to(ROOT / "encoders")
        Path("params.yaml").write_text(yaml.safe_dump(PARAMS))
        parts = rows()
        trained(parts)
        measured = claims(parts, 3 if options.quick else 9)
    harness.report(measured, ("onnxruntime", "torch"), to)


if __name__ == "__main__":
    main()
