"""Run one entry of finetune: train an encoder and a head on one task. The stage and the search for params call it."""

import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import torch
from transformers import PreTrainedModel

from pipelines.checkpoints import folder, new_head
from pipelines.core import paths, provenance, seeding
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.progress import say
from pipelines.core.resources import Resources
from pipelines.core.task import Task
from pipelines.entries.finetune import Finetune
from pipelines.text import tokenizer as text_tokenizer
from pipelines.training import checks, dev_scores, losses, strategies
from pipelines.training.batches import Encoded, RowBatches, sizes
from pipelines.training.distributed import Fitting, fitting

Point = tuple[int, dict[str, float]]
Fits = Callable[[str, str, Resources, str], AbstractContextManager[Fitting]]


def finetune(
    stage: str, key: str, entry: Finetune, target: Path, resources: Resources, data: Path | None = None,
    fits: Fits = fitting,
) -> list[Point]:  # fmt: skip
    """Train as `entry` says and write the model folder `target`; return the curve: (step, {name: number}).

    Args:
        data: the folder of encoded rows; by default that of the entry's name.
        fits: yields the `fit` of the training; by default one that resumes after a kill.
    """
    data, encoder = data or paths.encoded(entry.data), OpenedFolder(Path(entry.encoder))
    task, tokenizer = Task.load(data), text_tokenizer.load(data / "tokenizer")
    checks.finetune(key, entry, task)
    folder.check_fit(encoder, tokenizer.vocab_size, sizes(data)[0])
    groups = partial(strategies.groups, params=entry)
    model = _initial(entry, encoder, task)
    groups(model)  # freezes parameters, so that the next line can print which ones train
    say(f"{stage} {key}: {strategies.describe(model)}")
    train = Encoded.read(data, task.train).sample(entry.max_train_rows, entry.seed)
    batches = RowBatches(train, entry.batch_size, entry.epochs, entry.seed, tokenizer.pad_id)
    loss = _loss(entry, task, train, model.config.num_labels or 1)
    scores = dev_scores.on_split(data, entry.dev, task) if entry.dev else None
    curve: list[Point] = []
    depends = provenance.digest(data)
    with fits(stage, key, resources, depends) as fit, paths.fresh_folder(target) as out:
        fit(
            model,
            loss,
            batches,
            entry,
            groups=groups,
            report=lambda *point: curve.append(point),
            watch=scores,
            select=task.metric if scores else "",
            kind=task.kind,
        )
        folder.save(model, out, data / "tokenizer", task)
        (out / provenance.TRAINING).write_text(json.dumps({"steps": len(batches), "curve": curve}) + "\n")
        provenance.write(out, "finetune", entry.model_dump(), [data, encoder.path], ("torch", "transformers"))
    return curve


def _initial(entry: Finetune, encoder: OpenedFolder, task: Task) -> PreTrainedModel:
    """The encoder with the new head of the entry, drawn from its seed."""
    torch.manual_seed(seeding.derive(entry.seed, "head"))
    return new_head.for_task(encoder, task, entry.head, entry.pooling, entry.features)


def _loss(entry: Finetune, task: Task, train: Encoded, labels: int) -> losses.Loss:
    """The loss of the task's kind, with the weights of classes that the entry asks for."""
    weights = losses.balanced(train.labels, labels) if entry.class_weights == "balanced" else ()
    return losses.for_kind(task.kind, entry.label_smoothing, weights)
