"""Tokens a second of pretraining: our stage's own loop against transformers' way of doing the same.

The peer is a plain loop over `BertForMaskedLM` with `DataCollatorForLanguageModeling`, sentences one a line and padded
to max_length, or texts already packed to it; its loss meets the vocabulary at every token. Both train the same model on
batches of as many tokens, padding included, in turn, in one process; a rate counts the real tokens alone. All in fp32,
and ours in bf16 beside it where the machine has instructions for it.
"""

import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import torch
from transformers import BertJapaneseTokenizer, DataCollatorForLanguageModeling

from pipelines.acceleration import apply
from pipelines.checkpoints import pretrained
from pipelines.core.ragged import offsets
from pipelines.entries.parts.fit import Fit
from pipelines.objectives import mlm
from pipelines.pretraining.packing import PackedBatches
from pipelines.text import tokenizer
from pipelines.training import loop, losses, strategies
from pipelines.training.batches import Encoded

ROOT = Path(__file__).resolve().parents[1]
LENGTH, ROWS = 128, 32
AIMS = {"sentences": 4.0, "packed": 1.5}


def texts(count: int) -> Encoded:
    """Sentences as long as the samples' headlines and first sentences are: 8 to 40 tokens, ids by Zipf's law."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(8, 41, count)
    ids = np.minimum(rng.zipf(1.3, lengths.sum()) + 4, 15_999).astype(np.uint16)
    return Encoded(ids, offsets(lengths))


def model(special: Any) -> torch.nn.Module:
    return pretrained.start(ROOT / "encoders/shapes/bert.json", {}, mlm.auto(mlm.Params()), special, seed=1)


def ours(data: Encoded, special: Any, precision: str, plain: bool = True) -> Iterator[int]:
    """The training step of `fit`, a step at a time; yields the real tokens of each.

    Not `plain`: by torch's fused attention.
    """
    packed = PackedBatches(data, LENGTH, ROWS, 50, 1, special)
    net = model(special)
    params = Fit(learning_rate=1e-4, batch_size=ROWS)
    job = loop.Job(net, losses.Pretraining(mlm.predict), packed, params, None, Path("unused"), 1e9, precision)
    training = loop.Training(job, "")
    corrupt = partial(mlm.corrupt, params=mlm.Params(), tokenizer=special)
    strategies.train_mode(net)
    with apply.to_steps(net, precision, ()) as on:
        training.attention = on.attention
        if not plain:
            training.attention.plain_below = 0
        for step in range(len(packed)):
            batch = corrupt(packed[step], np.random.default_rng(step))
            training.step(batch)
            yield batch["input_ids"].numel()


def theirs(data: Encoded, special: Any, packed: bool) -> Iterator[int]:
    """The plain loop; yields the real tokens of each step."""
    net = model(special)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    collator = DataCollatorForLanguageModeling(BertJapaneseTokenizer.from_pretrained(ROOT / "encoders/mini-ja"))
    if packed:
        body = data.ids[: len(data.ids) // (LENGTH - 2) * (LENGTH - 2)].reshape(-1, LENGTH - 2)
        rows = [[special.cls_id, *row.tolist(), special.sep_id] for row in body]
    else:
        bounds = zip(data.offsets, data.offsets[1:], strict=False)
        rows = [[special.cls_id, *data.ids[a:b].tolist(), special.sep_id] for a, b in bounds]
    net.train()
    for first in range(0, len(rows), ROWS):
        chosen = rows[first : first + ROWS]
        padded = [row + [special.pad_id] * (LENGTH - len(row)) for row in chosen]
        masks = [[1] * len(row) + [0] * (LENGTH - len(row)) for row in chosen]
        batch = collator([{"input_ids": r, "attention_mask": m} for r, m in zip(padded, masks, strict=True)])
        net(**batch).loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        yield sum(map(len, chosen))


def rates(contenders: dict[str, Iterator[int]], rounds: int, steps: int) -> dict[str, list[float]]:
    """Seconds for a thousand real tokens of each contender, once each in every round."""
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for number in range(rounds + 1):  # the first round warms up
        for name, steps_run in contenders.items():
            start = time.perf_counter()
            tokens = sum(next(steps_run) for _ in range(steps))
            if number:
                seconds[name].append((time.perf_counter() - start) / tokens * 1000)
    return seconds


def main() -> None:
    options = harness.arguments(__doc__ or "")
    special = tokenizer.load(ROOT / "encoders/mini-ja")
    data = texts(4_000 if options.quick else 40_000)
    rounds, steps = (2, 2) if options.quick else (5, 5)
    seconds = rates(
        {
            "ours": ours(data, special, "fp32"),
            "ours in bf16": ours(data, special, "bf16"),
            "ours with fused attention": ours(data, special, "fp32", plain=False),
            "sentences": theirs(data, special, packed=False),
            "packed": theirs(data, special, packed=True),
        },
        rounds,
        steps,
    )
    claims = [
        harness.ratio(f"pretraining_tokens_vs_padded_transformers_{name}", aim, seconds[name], seconds["ours"])
        for name, aim in AIMS.items()
    ]
    claims.append(harness.ratio("pretraining_tokens_bf16_vs_fp32", 1.0, seconds["ours"], seconds["ours in bf16"]))
    fused = seconds["ours with fused attention"]
    claims.append(harness.ratio("pretraining_tokens_plain_vs_fused_attention", None, fused, seconds["ours"]))
    parameters = 4 * 12 * 256**2  # in the layers: 6 operations each for a token, forward and back
    flops = 6 * (parameters + 0.15 * 16_000 * 256 + 256**2 * 0.15) + 4 * 12 * LENGTH * 256
    rate = 1000 / statistics.median(seconds["ours"])
    harness.report(
        claims,
        ("torch", "transformers"),
        options.json,
        tokens_per_second={name: round(1000 / statistics.median(times)) for name, times in seconds.items()},
        gflops=round(flops * rate / 1e9),
        matrix_peak_gflops=round(harness.matrix_peak()),
    )


if __name__ == "__main__":
    main()
