"""A model is scored while it trains as it is scored afterwards."""

import shutil
from pathlib import Path

from pipelines.checkpoints import folder
from pipelines.core import paths, provenance, tables
from pipelines.evaluation.score import score
from pipelines.inference import watch
from pipelines.inference.predictor import Predictor
from tests.support import kinds, tiny


def test_the_scores_are_those_of_the_saved_model(checkout: Path) -> None:
    saved = tiny.classifier(checkout / "model")
    rows = kinds.rows("single")
    tables.write(paths.rows("it") / "dev.parquet", rows.to_batches(), rows.schema)
    encoded = paths.encoded("it")
    encoded.mkdir(parents=True)
    shutil.copytree(saved, encoded / "tokenizer")
    provenance.write(encoded, "encode", {"task": "it"}, [])
    model, task = folder.load_tuned(saved)
    found = watch.on_split(encoded, "dev", task)(model)
    assert found == score(rows, Predictor.load(saved, accelerate=False).predict(rows), task)["metrics"]
    assert 0 < found["accuracy"] < 1
