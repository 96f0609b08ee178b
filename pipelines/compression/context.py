"""What a compression method is given: the teacher, the rows, and functions to train and to score a model."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel

from pipelines.core.task import Task
from pipelines.entries.parts.fit import Fit
from pipelines.text.interface import Tokenizer
from pipelines.training.batches import Encoded, RowBatches
from pipelines.training.distributed import Fitting
from pipelines.training.loop import Watch


@dataclass(frozen=True)
class Data:
    """The encoded rows of a task."""

    train: Encoded
    dev: Encoded | None  # of the split that compress.NAME.dev names
    pad_id: int

    def batches(self, params: Fit) -> RowBatches:
        """The training rows in batches, as `params` sets them."""
        return RowBatches(self.train, params.batch_size, params.epochs, params.seed, self.pad_id)


@dataclass(frozen=True)
class Context:
    """One compression.

    Attributes:
        teacher: the fine-tuned model, in eval mode; a method may change it and return it.
        tokenizer: the teacher's.
        watch: scores a model on the split `dev`, with the predictor that evaluates it afterwards; None without that
            split. `select` of `fit` takes the task's metric.
        seed: of all random numbers that a method draws.
        fit: trains a model. Its checkpoints are valid only with this teacher.
        cache: a folder for the teacher's outputs; it is removed when the stage succeeds.
    """

    teacher: PreTrainedModel
    task: Task
    data: Data
    tokenizer: Tokenizer
    watch: Watch | None
    seed: int
    fit: Fitting
    cache: Path

    def train(self, model: PreTrainedModel, loss: Any, params: Fit, **options: Any) -> PreTrainedModel:
        """`fit` on the training rows; if there is a `dev` split, the weights with the best score on it are kept."""
        if self.watch:
            options = {"watch": self.watch, "select": self.task.metric} | options
        return self.fit(model, loss, self.data.batches(params), params, **options)
