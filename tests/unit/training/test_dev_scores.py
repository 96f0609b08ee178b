"""A model is scored while it trains as it is scored afterwards."""

import shutil
from pathlib import Path

from pipelines.checkpoints import folder
from pipelines.core import paths, tables
from pipelines.evaluation.score import score
from pipelines.inference.predictor import Predictor
from pipelines.training import dev_scores
from tests.support import kinds, tiny


def test_the_scores_are_those_of_the_saved_model(checkout: Path) -> None:
    saved = tiny.classifier(checkout / "model")
    rows = kinds.rows("single")
    encoded = paths.encoded("it")
    tables.write(paths.scored_rows(encoded, "dev"), rows.to_batches(), rows.schema)
    shutil.copytree(saved, encoded / "tokenizer")
    model, task = folder.load_tuned(saved)
    found = dev_scores.on_split(encoded, "dev", task)(model)
    assert found == score(rows, Predictor.load(saved, accelerate=False).predict(rows), task)["metrics"]
    assert 0 < found["accuracy"] < 1
