"""A model is scored while it trains as it is scored afterwards."""

import shutil
from pathlib import Path

import pytest

from pipelines.checkpoints import folder
from pipelines.core import paths, tables
from pipelines.evaluation.prediction_scores import score
from pipelines.inference.predictor import Predictor
from pipelines.training import dev_scores
from tests.support import kinds


@pytest.mark.parametrize("kind", kinds.TASKS)
def test_the_scores_are_those_of_the_saved_model(kind: str, checkout: Path) -> None:
    model, _ = kinds.model_and_rows(kind, "bert", checkout)
    rows, task, encoded, saved = kinds.rows(kind), kinds.TASKS[kind], paths.encoded("it"), checkout / "model"
    saved.mkdir()
    folder.save(model, saved, checkout / "encoder", task)
    tables.write(paths.scored_rows(encoded, "dev"), rows.to_batches(), rows.schema)
    shutil.copytree(saved, encoded / "tokenizer")
    scores = dev_scores.on_split(encoded, "dev", task)(model)
    assert scores == score(rows, Predictor.load(saved, accelerate=False).predict(rows), task)["metrics"]
    assert task.metric in scores
    assert kind != "single" or 0 < scores["accuracy"] < 1
