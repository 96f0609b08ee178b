"""Fine-tuning: our stage's own path against transformers.Trainer on the same rows, model, epochs and batch size.

Headlines are the livedoor titles of BERTLINE_MIRROR, 900 to train on, encoded with BERT's published Japanese
vocabulary; questions are windows of up to 384 tokens of SQuAD 1.1, with mini-en's. The model is BERT's shape, as deep
as BERT-base, 384 wide, with random weights: speed does not depend on them. Trainer pads to max_length, as the examples
do, or to the longest of a batch; its epochs are all alike, so one is measured and multiplied, without what it prepares
once, which is a job of one row. Seconds are of whole jobs, the building of a cache included, unless a claim says "per
epoch". fp32, contenders in turn. What is learned is compared beside it, on encoders/mini-ja: test accuracies, and the
difference with its paired bootstrap interval.
"""

import json
import os
import shutil
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import harness
import numpy as np
import peers
import ready_made
import torch
import yaml
from transformers import AutoModelForMaskedLM, AutoTokenizer, BertJapaneseTokenizer, DataCollatorWithPadding

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head, pretrained
from pipelines.core import paths
from pipelines.core.ragged import by_length
from pipelines.core.resources import Resources
from pipelines.core.task import Task
from pipelines.entries.finetune import Finetune
from pipelines.stages import encode, ingest, prepare
from pipelines.text import tokenizer
from pipelines.training import losses, strategies
from pipelines.training.batches import Encoded, RowBatches, collate
from pipelines.training.distributed import fitting

ROOT = Path(__file__).resolve().parents[1]
SHAPE = {"num_hidden_layers": 12, "hidden_size": 384, "num_attention_heads": 6, "intermediate_size": 1536}
BATCH, LENGTH = 16, 128
TENS = peers.TOP2["batch_size"]
EPOCHS, RATE = 5, 3e-4  # of the accuracies in full
MANY = 50  # epochs of the top two layers, and of the head
OF_PRODUCT = 0.7  # of the rate of one large product, in full fine-tuning


class Job:
    """Encoded rows, their task, an encoder, and the peer's tokenizer."""

    def __init__(self, values: dict[str, Any], key: str, vocab: Path, encoder: Path | None, length: int) -> None:
        values["encode"] = {key: {"task": key, "vocab": str(vocab), "max_length": length}}
        Path("params.yaml").write_text(yaml.safe_dump(values, allow_unicode=True))
        for stage in (ingest, prepare, encode) if key in values.get("ingest", {}) else (prepare, encode):
            stage.main(key)
        self.folder, self.task = paths.encoded(key), Task.load(paths.encoded(key))
        self.train, self.vocab = Encoded.read(self.folder, "train"), vocab
        self.encoder = encoder or self._random(Path(f"{vocab.name}-encoder"))
        opens = BertJapaneseTokenizer if self.task.language == "ja" else AutoTokenizer
        self.peer_tokenizer = opens.from_pretrained(vocab)

    def _random(self, folder: Path) -> Path:
        special = tokenizer.load(self.folder / "tokenizer")
        shape = ROOT / "encoders/shapes/bert.json"
        model = pretrained.start(shape, SHAPE, AutoModelForMaskedLM, special, seed=1)
        folder.mkdir()
        model_folder.save(model, folder, self.folder / "tokenizer")
        return folder

    def model(self) -> Any:
        torch.manual_seed(1)
        return new_head.for_task(self.encoder, self.task, "native" if self.task.kind == "span" else "linear")

    def ours(self, **changes: Any) -> Any:
        """The finetune stage's work, without reading and writing files but for checkpoint and cache."""
        fields: Any = {"batch_size": BATCH, "learning_rate": 1e-4} | changes
        entry = Finetune(data="d", encoder="e", **fields)
        model, groups = self.model(), partial(strategies.groups, params=entry)
        groups(model)
        batches, kind = RowBatches(self.train, entry.batch_size, entry.epochs, entry.seed, 0), self.task.kind
        with fitting("finetune", "ours", Resources(precision="fp32")) as fit:
            return fit(model, losses.for_kind(kind), batches, entry, groups=groups, kind=kind)

    def trainer(self, epochs: int = 1, batch: int = BATCH, **options: Any) -> Any:
        model = self.model()
        peers.trainer(model, self.train, self.peer_tokenizer, epochs, batch, **options)
        return model

    def keynote(self, epochs: int = 1, first: int | None = None) -> Any:
        model = self.model()
        peers.keynote(model, self.train, epochs, first)
        return model

    @torch.inference_mode()
    def right(self, model: Any, padded: int = 0) -> np.ndarray:
        """Which test rows the model labels rightly; `padded` ids a row without a mask, as the keynote's program has."""
        test = Encoded.read(self.folder, "test")
        correct, model = np.zeros(len(test), bool), model.eval()
        for rows in by_length(test.lengths, 4096):
            batch = collate(test, rows, 0)
            labels, inputs = batch.pop("labels"), batch
            if padded:
                ids = torch.nn.functional.pad(batch["input_ids"], (0, padded))[:, :padded]
                inputs = {"input_ids": ids}
            correct[rows] = (model(**inputs).logits.argmax(-1) == labels).numpy()
        return correct


def published_vocabulary() -> Path:
    """A folder with the vocabulary of BERT's first Japanese release, and the tokenizer's settings of mini-ja."""
    folder = Path("published").resolve()
    folder.mkdir()
    shutil.copyfile(Path(os.environ["BERTLINE_MIRROR"]) / "vocab/bert-base-japanese-v1_vocab.txt", folder / "vocab.txt")
    shutil.copyfile(ROOT / "encoders/mini-ja/tokenizer_config.json", folder / "tokenizer_config.json")
    return folder


def collating(job: Job, repeats: int) -> dict[str, Callable[[], Any]]:
    """Our batch and transformers', of the same 32 rows."""
    few = peers.rows(job.train)[:32]
    collator, chosen = DataCollatorWithPadding(job.peer_tokenizer), np.arange(32)
    return {
        "theirs": lambda: [collator([dict(row) for row in few]) for _ in range(repeats)],
        "ours": lambda: [collate(job.train, chosen, 0) for _ in range(repeats)],
    }


def times(job: Job, questions: Job, rounds: int, quick: bool) -> tuple[list[harness.Claim], dict[str, float]]:
    """The claims about speed, and the median seconds behind them; a quick run has none about many epochs."""
    padded = {"length": LENGTH}
    contenders: dict[str, Callable[[], Any]] = {
        "full, 3 epochs": lambda: job.ours(epochs=3),
        "full padded, an epoch": lambda: job.trainer(**padded),
        "full dynamic, an epoch": job.trainer,
        "Trainer prepares": lambda: job.trainer(first=1),
        "questions, an epoch": lambda: questions.ours(epochs=1),
        "questions padded, an epoch": lambda: questions.trainer(length=384),
    }
    if not quick:
        contenders |= {
            "top2, 5 epochs": lambda: job.ours(epochs=5, **peers.TOP2 | {"batch_size": BATCH}),
            "top2 padded, an epoch": lambda: job.trainer(top_k=2, **padded),
            "top2 grouped in tens, an epoch": lambda: job.trainer(batch=TENS, top_k=2, grouped=True),
            "top2 in tens, 5 epochs": lambda: job.ours(epochs=5, **peers.TOP2),
            "top2, many epochs": lambda: job.ours(epochs=MANY, **peers.TOP2),
            "keynote, an epoch": job.keynote,
            "keynote prepares": lambda: job.keynote(first=1),
            "head, many epochs": lambda: job.ours(epochs=MANY, strategy="frozen"),
        }
    seconds = harness.in_turn(contenders, rounds)
    collated = harness.in_turn(collating(job, 200), 5)
    epochs = partial(lasting, seconds)
    three, question_epoch = epochs("full padded, an epoch", 3), seconds["questions padded, an epoch"]
    claims = [
        harness.ratio("full_vs_Trainer_padded", 5.0, three, seconds["full, 3 epochs"]),
        harness.ratio("full_vs_Trainer_dynamic", 1.3, epochs("full dynamic, an epoch", 3), seconds["full, 3 epochs"]),
        harness.ratio("questions_full_vs_Trainer_padded", 1.8, question_epoch, seconds["questions, an epoch"]),
        harness.ratio("collate_vs_DataCollatorWithPadding", 20, collated["theirs"], collated["ours"]),
    ]
    if not quick:
        claims += _many_epochs(seconds, epochs)
    return claims, {name: round(statistics.median(times), 2) for name, times in seconds.items()}


def lasting(seconds: dict[str, list[float]], name: str, count: int) -> list[float]:
    """A peer's job of `count` epochs in each round, by one of an epoch: what it prepares is counted once."""
    prepares = seconds["keynote prepares" if name.startswith("keynote") else "Trainer prepares"]
    return [once + (whole - once) * count for whole, once in zip(seconds[name], prepares, strict=True)]


def _many_epochs(seconds: dict[str, list[float]], epochs: Callable[[str, int], list[float]]) -> list[harness.Claim]:
    """The claims about the top two layers and the head: what runs once is shared out over the epochs."""
    both = zip(seconds["top2 in tens, 5 epochs"], seconds["top2, many epochs"], strict=True)
    after_first = [(b - a) / (MANY - 5) for a, b in both]
    once = zip(seconds["top2 grouped in tens, an epoch"], seconds["Trainer prepares"], strict=True)
    full, five, many = "full padded, an epoch", seconds["top2, 5 epochs"], seconds["top2, many epochs"]
    return [
        harness.ratio("top2_5_epochs_vs_top2_padded", 15, epochs("top2 padded, an epoch", 5), five),
        harness.ratio("top2_5_epochs_vs_full_padded", 30, epochs(full, 5), five),
        harness.ratio("top2_many_epochs_vs_full_padded", 40, epochs(full, MANY), many),
        harness.ratio("top2_many_epochs_vs_keynote", 1, epochs("keynote, an epoch", MANY), many),
        harness.ratio("top2_per_epoch_vs_top2_grouped", 3, [a - b for a, b in once], after_first),
        harness.ratio("head_many_epochs_vs_full_padded", 500, epochs(full, MANY), seconds["head, many epochs"]),
    ]


def of_one_product(job: Job, seconds: float) -> tuple[harness.Claim, dict[str, int]]:
    """The rate of full fine-tuning, forward and back, by the layers' products of the real tokens; and the two rates."""
    width, inner = SHAPE["hidden_size"], SHAPE["intermediate_size"]
    layers = SHAPE["num_hidden_layers"] * width * (4 * width + 2 * inner)
    rate, peak = 6 * layers * 3 * len(job.train.ids) / seconds / 1e9, harness.matrix_peak()
    share = round(rate / peak, 2)
    claim = harness.Claim("full_rate_of_one_large_product", OF_PRODUCT, share, (share, share), share >= OF_PRODUCT)
    return claim, {"gflops_full": round(rate), "matrix_peak_gflops": round(peak)}


def accuracies(job: Job, many: int) -> tuple[list[harness.Claim], dict[str, float]]:
    """Ours against the peer's on the test rows, from the same encoder."""
    rights = {
        "full": job.right(job.ours(epochs=EPOCHS, learning_rate=RATE)),
        "full padded": job.right(job.trainer(EPOCHS, length=LENGTH, rate=RATE)),
        "top2": job.right(job.ours(epochs=many, **peers.TOP2)),
        "keynote": job.right(job.keynote(many), padded=50),
    }
    claims: list[harness.Claim] = []
    for name, peer in (("full", "full padded"), ("top2", "keynote")):
        difference = rights[name].astype(float) - rights[peer]
        draws = np.random.default_rng(0).integers(0, len(difference), (2000, len(difference)))
        low, high = np.quantile(difference[draws].mean(axis=1), [0.025, 0.975])
        title = f"accuracy_{name}_minus_{peer.replace(' ', '_')}"
        claims += harness.difference(title, difference.mean(), (low, high))
    return claims, {name: round(float(right.mean()), 4) for name, right in rights.items()}


def main() -> None:
    options = harness.arguments(__doc__ or "")
    to = options.json.resolve() if options.json else None
    with harness.empty_folder():
        livedoor = yaml.safe_load((ROOT / "params/livedoor.yaml").read_text(encoding="utf-8"))
        titles = Job(livedoor, "livedoor", published_vocabulary(), None, LENGTH)
        questions = Job({"prepare": {"squad": ready_made.squad("1.1")}}, "squad", ROOT / "encoders/mini-en", None, 384)
        questions.train = questions.train.sample(32 if options.quick else 96, 1)
        if options.quick:
            titles.train = titles.train.sample(160, 1)
        claims, seconds = times(titles, questions, 1 if options.quick else 3, options.quick)
        scores: dict[str, float] = {}
        rates: dict[str, int] = {}
        if not options.quick:  # in few steps most of the time is the preparing of new shapes
            claim, rates = of_one_product(titles, seconds["full, 3 epochs"])
            claims.append(claim)
            learned = Job(livedoor, "livedoor", ROOT / "encoders/mini-ja", ROOT / "encoders/mini-ja", LENGTH)
            about_accuracy, scores = accuracies(learned, MANY)
            claims += about_accuracy
    rows = len(titles.train)
    facts = {"seconds": seconds, "accuracy": scores, "epochs": MANY, "rows": rows}
    facts |= {"tokens_a_row": round(len(titles.train.ids) / rows, 1), **rates}
    print(json.dumps(facts, indent=1))
    harness.report(claims, ("torch", "transformers", "accelerate"), to, **facts)


if __name__ == "__main__":
    started = time.perf_counter()
    main()
    print(f"{time.perf_counter() - started:.0f} s")
