"""Fine-tuning: our stage's own path against transformers.Trainer on the same rows, model, epochs and batch size.

Rows are the livedoor titles of BERTLINE_MIRROR, 900 to train on, encoded with BERT's published Japanese vocabulary; the model is
BERT's shape, as deep as BERT-base, 384 wide, with random weights (speed does not depend on them). Trainer pads to max_length
128, as the examples do, or to the longest of a batch; its epochs are all alike, so one is measured and multiplied. The keynote's own program for the top two layers is written out as its slide has
it: ids padded with 0 to 50 without a mask, batches of 10 drawn by permutation, SGD, dropout throughout. Seconds are of whole
jobs, the building of a cache included, unless a claim says "per epoch". fp32, contenders in turn.
"""

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import torch
import yaml
from transformers import BertJapaneseTokenizer, DataCollatorWithPadding, Trainer, TrainingArguments

from pipelines.core import paths
from pipelines.core.entries import Finetune, Resources
from pipelines.core.task import Task
from pipelines.models import folder as model_folder
from pipelines.models import heads, pretrained
from pipelines.stages import encode, ingest, prepare
from pipelines.text import tokenizer
from pipelines.training import losses, prefix, strategies
from pipelines.training.batches import Encoded, RowBatches, collate
from pipelines.training.distributed import fitting

ROOT = Path(__file__).resolve().parents[1]
SHAPE = {"num_hidden_layers": 12, "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
RATES = [0.001, 0.0005]  # the keynote's, of the top layer and the one below
BATCH, LENGTH = 16, 128


def set_up() -> tuple[Encoded, Task, Path]:
    """The encoded titles, their task, and the folder of the encoder."""
    values = yaml.safe_load((ROOT / "params/livedoor.yaml").read_text(encoding="utf-8"))
    vocab = Path("vocab")
    vocab.mkdir()
    shutil.copyfile(Path(os.environ["BERTLINE_MIRROR"]) / "vocab/bert-base-japanese-v1_vocab.txt", vocab / "vocab.txt")
    shutil.copyfile(ROOT / "encoders/mini-ja/tokenizer_config.json", vocab / "tokenizer_config.json")
    values["encode"]["livedoor"]["vocab"] = "vocab"
    Path("params.yaml").write_text(yaml.safe_dump(values, allow_unicode=True))
    for stage in (ingest, prepare, encode):
        stage.main("livedoor")
    data = paths.encoded("livedoor")
    encoder = Path("encoder")
    encoder.mkdir()
    special = tokenizer.load(data / "tokenizer")
    from transformers import AutoModelForMaskedLM

    model = pretrained.start(ROOT / "encoders/shapes/bert.json", SHAPE, AutoModelForMaskedLM, special, seed=1)
    model_folder.save(model, encoder, data / "tokenizer")
    return Encoded.read(data, "train"), Task.load(data), encoder


def ours(data: Encoded, task: Task, encoder: Path, **changes: Any) -> None:
    """The finetune stage's work, without reading and writing files but for checkpoint and cache."""
    entry = Finetune(data="d", encoder="e", head="linear", batch_size=BATCH, learning_rate=1e-4, **changes)
    torch.manual_seed(1)
    model = heads.for_task(encoder, task, entry.head, entry.pooling)
    groups = partial(strategies.groups, params=entry)
    groups(model)
    batches = RowBatches(data, entry.batch_size, entry.epochs, entry.seed, 0)
    with (
        fitting("finetune", "ours", Resources(precision="fp32")) as fit,
        prefix.taken_off(model, batches, Path("state/prefix"), 4e9) as inputs,
    ):
        fit(model, losses.for_kind(task.kind), inputs, entry, groups)


def theirs(
    data: Encoded, task: Task, encoder: Path, epochs: int, dynamic: bool, top_k: int = 0, grouped: bool = False
) -> None:
    """transformers.Trainer, as its examples have it; with `top_k`, the layers below and the embeddings frozen."""
    model = heads.for_task(encoder, task, "linear")
    if top_k:
        strategies.groups(model, Finetune(data="d", encoder="e", strategy="top_k", top_k=top_k))
    bounds = zip(data.offsets, data.offsets[1:], strict=False)
    rows = [
        {"input_ids": data.ids[a:b].tolist(), "labels": int(label)}
        for (a, b), label in zip(bounds, data.labels, strict=True)
    ]
    collator = DataCollatorWithPadding(
        BertJapaneseTokenizer.from_pretrained("vocab"), "longest" if dynamic else "max_length", LENGTH
    )
    arguments = TrainingArguments(
        "trainer", num_train_epochs=epochs, per_device_train_batch_size=BATCH, learning_rate=1e-4, report_to=[], seed=1,
        save_strategy="no", logging_strategy="no", disable_tqdm=True, use_cpu=True, remove_unused_columns=False,
        train_sampling_strategy="group_by_length" if grouped else "random",
    )  # fmt: skip
    Trainer(model, arguments, train_dataset=rows, data_collator=collator).train()


def keynote(data: Encoded, task: Task, encoder: Path, epochs: int) -> None:
    """The slide's program: every layer runs in every step, the top two and the head train."""
    model = heads.for_task(encoder, task, "linear")
    entry = Finetune(
        data="d", encoder="e", strategy="top_k", top_k=2, layer_learning_rates=RATES, head_learning_rate=0.1
    )
    optimizer = torch.optim.SGD(strategies.groups(model, entry))
    bounds = zip(data.offsets, data.offsets[1:], strict=False)
    ids = torch.tensor([(data.ids[a:b].tolist() + [0] * 50)[:50] for a, b in bounds])
    labels = torch.from_numpy(data.labels)
    model.train()
    for epoch in range(epochs):
        for rows in torch.randperm(len(ids)).split(10):
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(input_ids=ids[rows]).logits, labels[rows]).backward()
            optimizer.step()
        if epoch % 5 == 4:
            torch.save(model.state_dict(), "keynote.pt")


def collating(data: Encoded, repeats: int) -> dict[str, Callable[[], Any]]:
    """Our batch and transformers', of the same 32 rows."""
    bounds = zip(data.offsets[:32], data.offsets[1:33], strict=True)
    rows = [
        {"input_ids": data.ids[a:b].tolist(), "labels": int(label)}
        for (a, b), label in zip(bounds, data.labels[:32], strict=True)
    ]
    collator, chosen = DataCollatorWithPadding(BertJapaneseTokenizer.from_pretrained("vocab")), np.arange(32)
    return {
        "theirs": lambda: [collator([dict(row) for row in rows]) for _ in range(repeats)],
        "ours": lambda: [collate(data, chosen, 0) for _ in range(repeats)],
    }


def main() -> None:
    given = harness.arguments(__doc__ or "")
    os.environ.setdefault("BERTLINE_QUIET", "1")
    os.environ["BERTLINE_MIRROR"] = str(Path(os.environ["BERTLINE_MIRROR"]).resolve())
    to, rounds = given.json.resolve() if given.json else None, 1 if given.quick else 3
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        data, task, encoder = set_up()
        if given.quick:
            data = data.sample(160, 1)
        run, peer = partial(ours, data, task, encoder), partial(theirs, data, task, encoder)
        top2 = {
            "strategy": "top_k",
            "top_k": 2,
            "optimizer": "sgd",
            "layer_learning_rates": RATES,
            "head_learning_rate": 0.1,
        }
        many = 10 if given.quick else 50
        seconds = harness.in_turn(
            {
                "full, 3 epochs": lambda: run(epochs=3),
                "full padded, an epoch": lambda: peer(1, dynamic=False),
                "full dynamic, an epoch": lambda: peer(1, dynamic=True),
                "top2, 5 epochs": lambda: run(epochs=5, **top2),
                "top2 padded, an epoch": lambda: peer(1, dynamic=False, top_k=2),
                "top2 grouped, an epoch": lambda: peer(1, dynamic=True, top_k=2, grouped=True),
                "top2, many epochs": lambda: run(epochs=many, **top2),
                "keynote, an epoch": lambda: keynote(data, task, encoder, 1),
                "head, many epochs": lambda: run(epochs=many, strategy="frozen"),
            },
            rounds,
        )
        collated = harness.in_turn(collating(data, 200), 5)
        os.chdir(ROOT)
    times = lambda name, count: [second * count for second in seconds[name]]  # noqa: E731
    after_first = [
        (b - a) / (many - 5) for a, b in zip(seconds["top2, 5 epochs"], seconds["top2, many epochs"], strict=True)
    ]
    claims = [
        harness.ratio("full_vs_Trainer_padded", 5.0, times("full padded, an epoch", 3), seconds["full, 3 epochs"]),
        harness.ratio("full_vs_Trainer_dynamic", 1.3, times("full dynamic, an epoch", 3), seconds["full, 3 epochs"]),
        harness.ratio("top2_5_epochs_vs_top2_padded", 15, times("top2 padded, an epoch", 5), seconds["top2, 5 epochs"]),
        harness.ratio("top2_5_epochs_vs_full_padded", 30, times("full padded, an epoch", 5), seconds["top2, 5 epochs"]),
        harness.ratio(
            "top2_many_epochs_vs_keynote", 30, times("keynote, an epoch", many), seconds["top2, many epochs"]
        ),
        harness.ratio("top2_per_epoch_vs_top2_grouped", 3, seconds["top2 grouped, an epoch"], after_first),
        harness.ratio(
            "head_many_epochs_vs_full_padded", 500, times("full padded, an epoch", many), seconds["head, many epochs"]
        ),
        harness.ratio("collate_vs_DataCollatorWithPadding", 20, collated["theirs"], collated["ours"]),
    ]
    shown = {name: round(sorted(each)[len(each) // 2], 2) for name, each in seconds.items()}
    print(json.dumps(shown, indent=1))
    harness.report(claims, ("torch", "transformers", "accelerate"), to, seconds=shown, epochs=many, rows=len(data))


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{time.perf_counter() - started:.0f} s")
