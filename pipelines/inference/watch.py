"""Scores of a model while it trains, by the same predictor that evaluates it afterwards."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core import paths, tables
from pipelines.core.task import Task
from pipelines.evaluation.score import score
from pipelines.inference.predictor import Predictor
from pipelines.inference.runtimes import Torch


def on_split(encoded: Path, split: str, task: Task) -> Any:
    """A function of the model: the task's metrics on the rows that a split of the folder `encoded` was made from."""
    rows = json.loads((encoded / "provenance.json").read_text())["params"]["task"]
    return scores(tables.read(paths.rows(rows) / f"{split}.parquet"), task, encoded / "tokenizer")


def scores(rows: pa.Table, task: Task, tokenizer_folder: Path) -> Any:
    """A function of the model: the task's metrics on `rows`."""
    return partial(_score, rows=rows, task=task, folder=tokenizer_folder)


def _score(model: Any, rows: pa.Table, task: Task, folder: Path) -> dict[str, float]:
    return score(rows, Predictor(Torch.of(model, task), folder).predict(rows), task)["metrics"]
