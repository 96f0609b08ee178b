"""Whether accelerated training scores as plain training does: the same rows, seeds and epochs, and dropout of 0.1.

Three short tasks on the lower two layers of encoders/mini-ja and mini-en: livedoor's titles (900 to learn from), JSTS
(1,500 pairs of sentences and their likeness) and SST-2 (2,000 phrases). They are scored on 5,000 other rows of the
training split, since on the few hundred of a test split chance alone is worth a point. Each seed is trained both ways;
the claim is the mean of the differences in points, and its spread the 95% interval by Student's t. Runs are appended to
a file as they end, so that a stopped benchmark goes on, and two can share the seeds: `--seeds 1 41 2` beside
`--seeds 2 41 2`.
`--only "fast dropout"` switches one acceleration on alone, so that a culprit has a name.
BERTLINE_MIRROR names the folder with the corpora.
"""

import argparse
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from unittest import mock

import harness
import numpy as np
import torch
import yaml
from scipy import stats
from transformers import AutoModel

from pipelines.acceleration import (
    attention_kernels,
    cls_only,
    embedding_subset,
    fast_dropout,
    onednn_linear,
    sequence_packing,
)
from pipelines.checkpoints import new_head
from pipelines.core import paths, seeding, tables
from pipelines.core.resources import Resources
from pipelines.core.task import Task
from pipelines.entries.finetune import Finetune
from pipelines.stages import encode, ingest, prepare
from pipelines.text import tokenizer
from pipelines.training import dev_scores, losses, strategies
from pipelines.training.batches import Encoded, RowBatches
from pipelines.training.distributed import fitting

ROOT = Path(__file__).resolve().parents[1]
AIM = 0.5  # points, on both sides of 0
PARAMS = {
    "ingest": {
        "livedoor": {"corpus": "livedoor", "edition": "official"},
        "jsts": {"corpus": "jglue", "edition": "jsts"},
        "sst2": {"corpus": "glue", "edition": "SST-2"},
    },
    "prepare": {
        "titles": {"corpus": "livedoor", "source": "artifacts/raw/livedoor", "task": "title"},
        "jsts": {"corpus": "jglue", "source": "artifacts/raw/jsts", "task": "jsts"},
        "sst2": {"corpus": "glue", "source": "artifacts/raw/sst2", "task": "SST-2"},
    },
    "encode": {
        "titles": {"task": "titles", "vocab": "mini-ja", "max_length": 64},
        "jsts": {"task": "jsts", "vocab": "mini-ja", "max_length": 96},
        "sst2": {"task": "sst2", "vocab": "mini-en", "max_length": 64},
    },
}
# name -> rows to train on, the encoder, the vector of a row
TASKS = {"titles": (900, "mini-ja", "mean"), "jsts": (1500, "mini-ja", "compare"), "sst2": (2000, "mini-en", "mean")}
HELD = 5000  # rows to score, of those that are left
DROPOUT = ("attention_dropout", "mlp_dropout", "embedding_dropout", "classifier_dropout")
SWITCHES = {
    "cls-only last layer": (cls_only, "only"),
    "sequence packing": (sequence_packing, "rows"),
    "embedding subset": (embedding_subset, "only"),
    "oneDNN linear layers": (onednn_linear, "by_onednn"),
    "fast dropout": (fast_dropout, "from_bits"),
    "attention kernels": (attention_kernels, "by_length"),
}


@contextmanager
def alone(name: str) -> Iterator[None]:
    """Inside the block, no acceleration but `name` is ever on; all of them may be if it is ""."""
    with ExitStack() as on:
        for switch, (module, function) in SWITCHES.items() if name else ():
            if switch != name:
                nothing = attention_kernels.ModelKernel() if switch == "attention kernels" else False
                on.enter_context(mock.patch.object(module, function, lambda *_, found=nothing: nullcontext(found)))
        yield


def set_up() -> None:
    """Encoders of two layers that drop, and the encoded rows."""
    for name in ("mini-ja", "mini-en"):
        model = AutoModel.from_pretrained(ROOT / "encoders" / name)
        shutil.copytree(ROOT / "encoders" / name, name)
        model.layers = model.layers[:2]
        two = {"num_hidden_layers": 2, "layer_types": model.config.layer_types[:2]}
        model.config.update(dict.fromkeys(DROPOUT, 0.1) | two)
        model.save_pretrained(name)
    Path("params.yaml").write_text(yaml.safe_dump(PARAMS))
    for key in PARAMS["ingest"]:
        ingest.main(key)
    for key, (rows, *_) in TASKS.items():
        prepare.main(key)
        divide(paths.rows(key), rows)
        encode.main(key)


def divide(folder: Path, count: int) -> None:
    """Leave `count` rows of the training split, drawn at random, and make a split of HELD others."""
    rows = tables.read(folder / "train.parquet")
    order = np.random.default_rng(1).permutation(rows.num_rows)
    for split, chosen in (("train", order[:count]), ("held", order[count : count + HELD])):
        part = rows.take(np.sort(chosen))
        tables.write(folder / f"{split}.parquet", part.to_batches(), part.schema)
    Task.load(folder).with_(splits=("train", "held")).save(folder)


def score(name: str, seed: int, acceleration: bool) -> float:
    """The task's metric of one run, in points."""
    _, encoder, pooling = TASKS[name]
    folder, task = paths.encoded(name), Task.load(paths.encoded(name))
    entry = Finetune(data=name, encoder=encoder, head="linear", epochs=3, batch_size=16, learning_rate=3e-4, seed=seed)
    torch.manual_seed(seeding.derive(seed, "head"))
    model, groups = new_head.for_task(Path(encoder), task, "linear", pooling), partial(strategies.groups, params=entry)
    data = Encoded.read(folder, "train")
    batches = RowBatches(data, entry.batch_size, entry.epochs, seed, tokenizer.load(folder / "tokenizer").pad_id)
    groups(model)
    with fitting("finetune", name, Resources(acceleration=acceleration)) as fit:
        trained = fit(model, losses.for_kind(task.kind), batches, entry, groups=groups, kind=task.kind)
    return 100 * dev_scores.on_split(folder, "held", task)(trained)[task.metric]


def claims(runs: list[dict], which: str) -> list[harness.Claim]:
    """The mean difference of each task, with its interval."""
    claims_found = []
    for name in TASKS:
        of = {(run["seed"], run["way"]): run["score"] for run in runs if run["task"] == name}
        seeds = sorted(seed for seed, way in of if way == which and (seed, "plain") in of)
        if len(seeds) < 2:
            raise SystemExit(f"{name}: an interval takes two seeds or more")
        differences = np.array([of[seed, which] - of[seed, "plain"] for seed in seeds])
        half = float(stats.t.ppf(0.975, len(seeds) - 1) * differences.std(ddof=1) / len(seeds) ** 0.5)
        mean = float(differences.mean())
        low, high = round(mean - half, 2), round(mean + half, 2)
        title = f"{name}_{which.replace(' ', '_')}_minus_plain_points_of_{len(seeds)}_seeds"
        claims_found.append(harness.Claim(title, None, round(mean, 2), (low, high), low >= -AIM and high <= AIM))
    return claims_found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 9], help="first, end, step")
    parser.add_argument(
        "--tasks", nargs="+", choices=[*TASKS], default=[*TASKS], help="those to train; all are told of"
    )
    parser.add_argument("--only", default="", choices=["", *SWITCHES])
    parser.add_argument("--runs", type=Path, default=Path("benchmarks/results/same_scores.jsonl"))
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    file, which = options.runs.resolve(), options.only or "accelerated"
    torch.set_num_threads(options.threads)
    here = Path.cwd()
    with tempfile.TemporaryDirectory() as place, alone(options.only):
        os.chdir(place)
        set_up()
        for seed in range(*options.seeds):
            done = {(run["task"], run["seed"], run["way"]) for run in _runs(file)}
            for name in options.tasks:
                for way in ("plain", which):
                    if (name, seed, way) not in done:
                        run = {"task": name, "seed": seed, "way": way, "score": score(name, seed, way != "plain")}
                        with file.open("a") as runs:
                            runs.write(f"{json.dumps(run)}\n")
        os.chdir(here)
    harness.report(claims(_runs(file), which), ("torch", "transformers"), options.json)


def _runs(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.is_file() else []


if __name__ == "__main__":
    main()
