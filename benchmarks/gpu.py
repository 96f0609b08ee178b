"""A GPU's paths: tokens per second of fine-tuning and of encoding, beside transformers.Trainer as run_glue sets it up.

The model is BERT-base's shape with random weights and a vocabulary of 32,000; titles have 8 to 64 tokens, long rows
512. Ours is the training loop of the finetune stage, with everything that it switches on. The peer pads to 128, has the
same batches, bf16 and torch's fused AdamW; without `accelerate`, which Trainer needs, it is a plain loop of the same
operations, and the name says so. Only real tokens count. The share of the matrix peak has the layers' products alone
above the line, and below it the rate of one large product of bf16 in the same run. Without a GPU all sizes are tiny:
that shows that it runs, and nothing else.
"""

import copy
import gc
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import harness
import numpy as np
import torch
from gpu_peer import Timer, peer
from transformers import BertConfig, BertForSequenceClassification

from pipelines.acceleration import apply, frozen_features, precision, sequence_packing
from pipelines.core.ragged import offsets
from pipelines.core.resources import Resources
from pipelines.entries.finetune import Finetune
from pipelines.training import losses, strategies
from pipelines.training.batches import Encoded, RowBatches
from pipelines.training.loop import Job, Training, train

CUDA = torch.cuda.is_available()
FINETUNE, TIMES, ENCODE = 400_000, 4.0, 1_000_000  # the aims: tokens/s, times run_glue, tokens/s
AGREE, LOSS = 0.99, 0.01  # the aims: share of equal predictions, relative difference of the loss


@dataclass
class Sizes:
    """How much is measured."""

    layers: int = 12
    hidden: int = 768
    vocab: int = 32_000
    labels: int = 15
    batch: int = 512  # titles
    few: int = 32  # titles, as run_glue has them
    long: int = 32  # rows of 512
    length: int = 512
    padded: int = 128
    warm: int = 10  # steps before the clock starts
    steps: int = 40
    rounds: int = 3
    held: int = 8192  # rows to encode and to predict


def sizes(quick: bool) -> Sizes:
    if not CUDA:
        return Sizes(2, 64, 500, 3, 8, 4, 2, 32, 64, 1, 2, 1, 32)
    return Sizes(steps=20, rounds=1, held=2048) if quick else Sizes()


def rows(of: Sizes, count: int, low: int, high: int, seed: int) -> Encoded:
    """Random rows; a third of a row's tokens are words of its label, so that it can be learned."""
    rng = np.random.default_rng(seed)
    lengths, labels = rng.integers(low, high + 1, count), rng.integers(0, of.labels, count)
    ids = rng.integers(10, of.vocab, lengths.sum())
    class_tokens = np.repeat(labels, lengths) * 20 + 10 + rng.integers(0, 20, lengths.sum())
    ids = np.where(rng.random(lengths.sum()) < 1 / 3, class_tokens, ids)
    return Encoded(ids.astype(np.uint16), offsets(lengths), None, labels)


def classifier(of: Sizes) -> Any:
    torch.manual_seed(1)
    shape = {"num_hidden_layers": of.layers, "hidden_size": of.hidden, "num_attention_heads": of.hidden // 64}
    shape |= {"intermediate_size": 4 * of.hidden, "max_position_embeddings": 512, "vocab_size": of.vocab}
    return BertForSequenceClassification(BertConfig(**shape, num_labels=of.labels))


def ours(model: Any, data: Encoded, batch: int, of: Sizes, resources: Resources, **entry: Any) -> float:
    """Tokens per second of the training loop in its second epoch, from the model, which learns."""
    params = Finetune(data="d", encoder="e", batch_size=batch, epochs=2, learning_rate=5e-5, **entry)
    groups = partial(strategies.groups, params=params)
    groups(model)
    batches = RowBatches(data, batch, params.epochs, 1, 0)
    first, last = len(batches) - of.steps, len(batches)
    timer = Timer(first, last)
    with tempfile.TemporaryDirectory() as place:
        path = Path(place)
        with apply.to_rows(model, batches, "single", path / "states", resources) as on:
            job = Job(
                model, losses.for_kind("single"), on.batches, params, groups, path / "fit.pt", 1e9,
                precision=resources.precision, accelerated=on.names,
                each_step=lambda _, step, steps: timer.begin(step), after_step=lambda _: timer.end(),
            )  # fmt: skip
            train(job, lambda metrics: None, "")
            model.load_state_dict(torch.load(job.checkpoint, weights_only=True)["model"])
    timed = np.concatenate([batches.rows(step) for step in range(first, last)])
    return float(data.lengths[timed].sum()) / timer.seconds


def host_waits(model: Any, data: Encoded, of: Sizes) -> int:
    """How often the host waits for the GPU in five steps of the training loop, by torch's own count."""
    params = Finetune(data="d", encoder="e", batch_size=of.few, epochs=1)
    batches = RowBatches(data, of.few, 1, 1, 0)
    with tempfile.TemporaryDirectory() as place, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with apply.to_rows(model, batches, "single", Path(place), Resources()) as on:
            job = Job(model, losses.for_kind("single"), on.batches, params, None, Path(place) / "fit.pt", 1e9)
            training = Training(job, "")
            with apply.to_steps(model, "auto", on.names) as steps:
                training.attention = steps.attention
                for step in range(8):
                    training.now.step, batch = step, on.batches[step % len(on.batches)]
                    torch.cuda.set_sync_debug_mode("warn" if step >= 3 else "default")
                    training.step(batch)
                    torch.cuda.set_sync_debug_mode("default")
    return sum("called a synchronizing" in str(warning.message) for warning in caught)


@torch.inference_mode()
def encode(model: Any, data: Encoded, packed: bool) -> torch.Tensor:
    """Logits of all rows, (N, C) float32: packed in bf16, or padded in fp32."""
    batches = RowBatches(data, len(data), 1, 1, 0)
    logits = torch.zeros(len(data), model.config.num_labels, device=next(model.parameters()).device)
    with sequence_packing.rows(model) if packed else nullcontext():
        for chosen, batch in frozen_features.read_through(model, batches, "encoding"):
            batch.pop("labels")
            with precision.autocast("auto" if packed else "fp32"):
                batch_logits = model(**batch).logits.float()
            logits[torch.from_numpy(chosen).to(logits.device, non_blocking=True)] = batch_logits
    return logits.cpu()


def rates(work: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """The tokens per second of each contender, in turn."""
    rates_of: dict[str, list[float]] = {name: [] for name in work}
    for _ in range(rounds):
        for name, measure in work.items():
            rates_of[name].append(measure())
            gc.collect()
            torch.cuda.empty_cache()
    return rates_of


def matrix_peak() -> float:
    """TFLOP/s of one large product, bf16 on a GPU: the median of ten."""
    size, kind = (8192, torch.bfloat16) if CUDA else (256, torch.float32)
    a, b = (torch.randn(size, size, dtype=kind, device="cuda" if CUDA else "cpu") for _ in range(2))
    seconds = []
    for _ in range(13):
        start = time.perf_counter()
        torch.matmul(a, b)
        if CUDA:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return 2 * size**3 / statistics.median(seconds[3:]) / 1e12


def speeds(of: Sizes) -> tuple[list[harness.Claim], Any, dict[str, float]]:
    """The claims about speed, the model that learned titles, and the matrix peak."""
    base, steps = classifier(of), of.warm + of.steps
    few, titles = (rows(of, steps * count, 8, of.padded // 2, 1) for count in (of.few, of.batch))
    long = rows(of, steps * of.long, of.length, of.length, 2)
    held, learned = rows(of, of.held, 8, of.padded // 2, 3), copy.deepcopy(base)
    on, name = Resources(), "Trainer" if find_spec("accelerate") else "loop_as_Trainer"
    again = lambda: copy.deepcopy(base)  # noqa: E731

    def encoded() -> float:
        start = time.perf_counter()
        encode(learned, held, packed=True)
        return len(held.ids) / (time.perf_counter() - start)

    ours(learned, titles, of.batch, of, on)  # which also warms all up
    encoded()
    top2 = {"strategy": "top_k", "top_k": 2}
    rates_of = rates(
        {
            "titles": lambda: ours(again(), titles, of.batch, of, on),
            "titles, peer": lambda: peer(again(), titles, of.batch, of.padded, of.warm, of.steps),
            "few titles": lambda: ours(again(), few, of.few, of, on),
            "few titles, peer": lambda: peer(again(), few, of.few, of.padded, of.warm, of.steps),
            "long rows": lambda: ours(again(), long, of.long, of, on),
            "long rows, peer": lambda: peer(again(), long, of.long, of.length, of.warm, of.steps),
            "top 2 layers": lambda: ours(again(), titles, of.batch, of, on, **top2),
            "encoding": encoded,
        },
        of.rounds,
    )
    peak = matrix_peak()
    work = 6 * of.layers * 12 * of.hidden**2 / 1e12  # TFLOP of a token in the layers' products, forward and back
    share = lambda key: [rate * work / peak for rate in rates_of[key]]  # noqa: E731
    against = lambda key: [a / b for a, b in zip(rates_of[key], rates_of[f"{key}, peer"], strict=True)]  # noqa: E731
    claims = [
        claim("finetune_titles_tokens_per_second", FINETUNE, rates_of["titles"], 0),
        claim(f"finetune_titles_vs_{name}_padded_to_{of.padded}", TIMES, against("titles")),
        claim("finetune_titles_share_of_matrix_peak", None, share("titles")),
        claim(f"finetune_titles_batch_{of.few}_tokens_per_second", None, rates_of["few titles"], 0),
        claim(f"finetune_titles_batch_{of.few}_vs_{name}_padded_to_{of.padded}", None, against("few titles")),
        claim(f"finetune_{of.length}_tokens_per_second", None, rates_of["long rows"], 0),
        claim(f"finetune_{of.length}_vs_{name}", None, against("long rows")),
        claim(f"finetune_{of.length}_share_of_matrix_peak", None, share("long rows")),
        claim("finetune_top_2_layers_frozen_features_tokens_per_second", None, rates_of["top 2 layers"], 0),
        claim("encode_titles_tokens_per_second", ENCODE, rates_of["encoding"], 0),
    ]
    return claims, (learned, held), {"matrix_peak_tflops": round(peak, 1)}


def claim(name: str, aim: float | None, values: list[float], digits: int = 3) -> harness.Claim:
    """A number of which more is better."""
    middle, low, high = (round(value, digits) for value in (statistics.median(values), min(values), max(values)))
    return harness.Claim(name, aim, middle, (low, high), aim is None or middle >= aim)


def same_numbers(model: Any, held: Encoded, of: Sizes) -> list[harness.Claim]:
    """Predictions, losses and waits: packed rows in bf16 beside padded rows in fp32."""
    packed, plain = encode(model, held, packed=True), encode(model, held, packed=False)
    labels = torch.from_numpy(held.labels)
    alike = float((packed.argmax(-1) == plain.argmax(-1)).double().mean())
    padded_loss, packed_loss = (
        float(torch.nn.functional.cross_entropy(logits_of_rows, labels)) for logits_of_rows in (plain, packed)
    )
    right = float((packed.argmax(-1) == labels).double().mean())
    apart = abs(packed_loss - padded_loss) / padded_loss
    waits = [host_waits(model, held, of)] if CUDA else []  # torch counts them on a GPU alone
    return [
        claim("predictions_packed_bf16_equal_to_padded_fp32", AGREE, [alike], 4),
        claim("accuracy_of_these_predictions", None, [right], 4),
        harness.Claim("loss_relative_difference", LOSS, round(apart, 6), (round(apart, 6),) * 2, apart <= LOSS),
        *(harness.Claim("host_waits_in_5_steps", 0, count, (count, count), count == 0) for count in waits),
    ]


def device() -> str:
    """The GPU's name, and CUDA's version; what there is without one."""
    return f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}" if CUDA else "no GPU: tiny sizes, no results"


def main() -> None:
    options = harness.arguments(__doc__ or "")
    os.environ.setdefault("BERTLINE_QUIET", "1")
    started, of = time.perf_counter(), sizes(options.quick)
    claims, (learned, held), facts = speeds(of)
    claims += same_numbers(learned, held, of)
    packages = ("torch", "transformers", *(("accelerate",) if find_spec("accelerate") else ()))
    print(device(), facts)
    harness.report(claims, packages, options.json, device=device(), sizes=vars(of), **facts)
    print(f"{time.perf_counter() - started:.0f} s")


if __name__ == "__main__":
    main()
