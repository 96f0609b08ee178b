"""Fine-tuning 1, 4 and 16 times as many rows: time grows as the rows do, memory does not.

Each size is a process of its own: the finetune stage on livedoor's titles, encoders/mini-ja, one epoch, repeated rows
where there are not enough. In full, and the top two layers on frozen features. Seconds are of the training steps and
the features, without the start of the process; memory is the process's peak, with the pages of mapped files in it,
which the system takes back when others need them, and (`own`) without them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import harness
import numpy as np
import yaml

ROOT = Path(__file__).resolve().parents[1]
SIZES = (450, 1800, 7200)
WAYS = {"full": {"strategy": "full"}, "top2": {"strategy": "top_k", "top_k": 2}}


@contextmanager
def own_peak() -> Iterator[list[float]]:
    """Inside the block, the most memory seen that is no page of a file, in MB; looked at twenty times a second."""
    most, ended = [0.0], threading.Event()

    def look() -> None:
        while not ended.wait(0.05):
            status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
            most[0] = max(most[0], int(status["RssAnon"].split()[0]) / 1024)

    looking = threading.Thread(target=look)
    looking.start()
    try:
        yield most
    finally:
        ended.set()
        looking.join()


def train(rows: int, way: str) -> dict[str, float]:
    """One epoch over `rows` rows in this process: its seconds and peak memory in MB."""
    import torch

    from pipelines.checkpoints import new_head
    from pipelines.core import paths
    from pipelines.core.ragged import Ragged
    from pipelines.core.resources import Resources
    from pipelines.core.task import Task
    from pipelines.entries.finetune import Finetune
    from pipelines.measurement.interleaved_worker import peak_mb
    from pipelines.training import losses, strategies
    from pipelines.training.batches import Encoded, RowBatches
    from pipelines.training.distributed import fitting

    folder = paths.encoded("livedoor")
    task, data = Task.load(folder), Encoded.read(folder, "train")
    order = np.random.default_rng(1).permutation(len(data))  # they lie by category, and so by length
    chosen = np.resize(order, rows)
    part = Ragged(data.ids, data.offsets).take(chosen)
    assert data.labels is not None
    data = Encoded(part.values, part.offsets, labels=data.labels[chosen])
    entry = Finetune(data="d", encoder="e", epochs=1, batch_size=16, learning_rate=1e-4, **WAYS[way])
    torch.manual_seed(1)
    model = new_head.for_task(ROOT / "encoders/mini-ja", task, "linear")
    groups = partial(strategies.groups, params=entry)
    groups(model)
    batches, resources = RowBatches(data, 16, 1, 1, 0), Resources(precision="fp32")
    with fitting("finetune", f"{way}-{rows}", resources) as fit, own_peak() as own_bytes:
        warm_up, loss = RowBatches(data.sample(16, 1), 16, 1, 1, 0), losses.for_kind(task.kind)
        fit(model, loss, warm_up, entry, groups=groups)  # warms up
        start = time.perf_counter()
        fit(model, loss, batches, entry, groups=groups, kind=task.kind)
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "megabytes": peak_mb(), "own_megabytes": own_bytes[0]}


def set_up() -> None:
    from pipelines.stages import encode, ingest, prepare

    values = yaml.safe_load((ROOT / "params/livedoor.yaml").read_text(encoding="utf-8"))
    Path("encoders").symlink_to(ROOT / "encoders")
    values["prepare"]["livedoor"] |= {"train_per_class": 400}
    Path("params.yaml").write_text(yaml.safe_dump(values, allow_unicode=True))
    for stage in (ingest, prepare, encode):
        stage.main("livedoor")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a quarter of the rows, once")
    parser.add_argument("--json", type=Path, help="write the claims here")
    parser.add_argument("--one", nargs=2, metavar=("ROWS", "WAY"), help=argparse.SUPPRESS)  # in a process of its own
    options = parser.parse_args()
    os.environ.setdefault("BERTLINE_QUIET", "1")
    if options.one:
        print(json.dumps(train(int(options.one[0]), options.one[1])))
        return
    os.environ["BERTLINE_MIRROR"] = str(Path(os.environ["BERTLINE_MIRROR"]).resolve())
    to, sizes = options.json.resolve() if options.json else None, [n // 4 if options.quick else n for n in SIZES]
    runs_of: dict[tuple[str, int], list[dict[str, float]]] = {(way, size): [] for way in WAYS for size in sizes}
    script = str(Path(__file__).resolve())
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        set_up()
        for _ in range(1 if options.quick else 3):
            for way, size in runs_of:
                command = [sys.executable, script, "--one", str(size), way]
                output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
                runs_of[way, size].append(json.loads(output.splitlines()[-1]))
        os.chdir(ROOT)
    median = {
        (way, size, what): statistics.median(measures[what] for measures in runs)
        for (way, size), runs in runs_of.items()
        for what in runs[0]
    }
    claims = []
    for way in WAYS:
        for what, aim in (("seconds", 16 * 1.2), ("megabytes", 1.2), ("own_megabytes", 1.2)):
            first, last = ([run[what] for run in runs_of[way, size]] for size in (sizes[0], sizes[-1]))
            rounds = [b / a for a, b in zip(first, last, strict=True)]
            growth = median[way, sizes[-1], what] / median[way, sizes[0], what]
            spread = (round(min(rounds), 2), round(max(rounds), 2))
            claims.append(
                harness.Claim(
                    f"{way}_{what}_of_16_times_the_rows", round(aim, 1), round(growth, 2), spread, growth <= aim
                )
            )
    facts = {
        f"{way}, {size} rows": {what: round(median[way, size, what], 1) for what in runs[0]}
        for (way, size), runs in runs_of.items()
    }
    print(json.dumps(facts, indent=1))
    harness.report(claims, ("torch", "transformers"), to, sizes=facts)


if __name__ == "__main__":
    main()
