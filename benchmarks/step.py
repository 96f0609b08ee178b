"""Where a step of full fine-tuning spends its time, by torch's profile: the first contender of `finetune.py`.

The share of each operator in six steps, after thirty that are timed without the profile; and the rate of the layers'
products of the real tokens, beside that of one large product.
"""

import os
import statistics
import tempfile
import time
from functools import partial
from pathlib import Path

import finetune
import harness
import torch
import yaml

from pipelines.acceleration import apply
from pipelines.core.resources import Resources
from pipelines.training import losses, strategies
from pipelines.training.batches import RowBatches
from pipelines.training.loop import Job, Training

TIMED, PROFILED = 30, 6


def main() -> None:
    harness.arguments(__doc__ or "")
    os.environ["BERTLINE_QUIET"] = "1"
    os.environ["BERTLINE_MIRROR"] = str(Path(os.environ["BERTLINE_MIRROR"]).resolve())
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        livedoor = yaml.safe_load((finetune.ROOT / "params/livedoor.yaml").read_text(encoding="utf-8"))
        titles = finetune.Job(livedoor, "livedoor", finetune.published_vocabulary(), None, finetune.LENGTH)
        profile(titles)
        os.chdir(finetune.ROOT)


def profile(titles: finetune.Job) -> None:
    """Print the rates and the table of operators."""
    entry = finetune.Finetune(data="d", encoder="e", batch_size=finetune.BATCH, learning_rate=1e-4, epochs=3)
    model, groups = titles.model(), partial(strategies.groups, params=entry)
    batches = RowBatches(titles.train, entry.batch_size, entry.epochs, entry.seed, 0)
    job = Job(model, losses.for_kind("single"), batches, entry, groups, Path("c.pt"), 1e9, precision="fp32")
    training = Training(job, "")
    strategies.train_mode(model)
    resources = Resources(precision="fp32")
    with (
        apply.to_rows(model, batches, "single", Path("frozen"), resources) as rows,
        apply.to_steps(model, "fp32", rows.names) as on,
    ):
        training.attention = on.attention
        print(apply.told(on.names))
        seconds, tokens = zip(*(step(training, number) for number in range(TIMED)), strict=True)
        width, inner = finetune.SHAPE["hidden_size"], finetune.SHAPE["intermediate_size"]
        work = 6 * finetune.SHAPE["num_hidden_layers"] * width * (4 * width + 2 * inner) * sum(tokens)
        rate, peak = work / sum(seconds) / 1e9, harness.matrix_peak()
        print(f"{statistics.median(seconds) * 1e3:.0f} ms a step; {rate:.0f} of {peak:.0f} GFLOP/s: {rate / peak:.2f}")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            for number in range(TIMED, TIMED + PROFILED):
                step(training, number)
    print(profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=30, max_name_column_width=40))


def step(training: Training, number: int) -> tuple[float, int]:
    """Seconds and real tokens of one step."""
    training.now.step, batch = number, training.job.batches[number]
    start = time.perf_counter()
    training.step(batch)
    return time.perf_counter() - start, int(batch["attention_mask"].sum())


if __name__ == "__main__":
    main()
