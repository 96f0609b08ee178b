"""Scores of a model while it trains, by the same predictor that evaluates it afterwards."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pipelines.core import paths
from pipelines.core.opened_folder import OpenedFolder
from pipelines.core.task import Task
from pipelines.evaluation.split import Split
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import Torch


def on_split(encoded: Path, split: str, task: Task) -> Callable[[Any], dict[str, float]]:
    """A function that returns a model's metrics on the rows from which a split of the folder `encoded` was made."""
    rows, tokenizer = Split(paths.scored_rows(encoded, split), task), OpenedFolder(encoded / "tokenizer")
    return partial(_score, split=rows, tokenizer=tokenizer)


def _score(model: Any, split: Split, tokenizer: OpenedFolder) -> dict[str, float]:
    metrics: dict[str, float] = split.score(Predictor(Torch.of(model, split.task), tokenizer).predict)["metrics"]
    return metrics
