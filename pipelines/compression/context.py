"""The context of a compression method: the teacher, the rows, and functions to train and to score a model."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from transformers import PreTrainedModel

from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.task import Task
from pipelines.entries.parts.fit import Fit
from pipelines.models.batch import Batch
from pipelines.text.protocol import Tokenizer
from pipelines.training.batches import Encoded, RowBatches, collate
from pipelines.training.distributed import FitOptions, Fitting
from pipelines.training.loop import Watch


@dataclass(frozen=True)
class Data:
    """The encoded rows of a task."""

    train: Encoded
    dev: Encoded | None  # the split that compress.NAME.dev names
    pad_id: int

    def batches(self, params: Fit) -> RowBatches:
        """The training rows in batches, with the batch size, epochs and seed of `params`."""
        return RowBatches(self.train, params.batch_size, params.epochs, params.seed, self.pad_id)

    def once(self, most: int | None, batch_size: int, seed: int) -> Iterator[Batch]:
        """Batches of `most` training rows drawn with the seed, each once, in their original order; None takes all."""
        data = self.train.sample(most, seed)
        for start in range(0, len(data), batch_size):
            yield collate(data, np.arange(start, min(start + batch_size, len(data))), self.pad_id)


@dataclass(frozen=True)
class Context:
    """The input of one compression.

    Attributes:
        teacher: the fine-tuned model, in eval mode; a method may change it and return it.
        tokenizer: the teacher's tokenizer.
        watch: scores a model on the split `dev`, with the same predictor that evaluates it afterwards; None without
            that split. Pass the task's metric as `select` of `fit`.
        seed: the seed of all random numbers that a method draws.
        fit: trains a model. Its checkpoints are valid only with this teacher.
        cache: a folder for the teacher's outputs; it is removed when the stage succeeds.
        source: the teacher's folder, opened.
        found: the method's findings about its result; they are written to variant.json.
    """

    teacher: PreTrainedModel
    task: Task
    data: Data
    tokenizer: Tokenizer
    watch: Watch | None
    seed: int
    fit: Fitting
    cache: Path
    source: OpenedFolder
    found: dict[str, Any] = field(default_factory=dict)

    @property
    def own_tokenizer(self) -> Path:
        """The folder into which a method writes tokenizer files if it replaces the teacher's tokenizer."""
        return self.cache / "tokenizer"

    def train(self, model: PreTrainedModel, loss: Any, params: Fit, **options: Unpack[FitOptions]) -> PreTrainedModel:
        """Call `fit` on the training rows; with a `dev` split, keep the weights with the best score on it."""
        scored: FitOptions = {"watch": self.watch, "select": self.task.metric} if self.watch else {}
        trained: PreTrainedModel = self.fit(model, loss, self.data.batches(params), params, **(scored | options))
        return trained
