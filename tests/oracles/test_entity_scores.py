"""Scores of entities beside those of transformers' token-classification pipeline, on models with random weights."""

from pathlib import Path

import pyarrow as pa
import pytest
import torch
from transformers import pipeline

from pipelines.checkpoints import folder as model_folder
from pipelines.checkpoints import new_head
from pipelines.inference.predictor import Predictor
from tests.support import tiny

TEXTS = [  # words between spaces, each of several pieces
    "スマートフォン フォン スマート ートフォ マスト",
    "フォート スマフォ ンスマート フォーマスト トン",
    "マート スン フォン トーマス スマートフォン マートン",
]
INSIDE = 2  # the tag I- of the first label


def tagger(place: Path, units: str) -> Path:
    """A tagger with WordPiece; its tags differ from token to token, and many continue an entity."""
    source = tiny.of_family("bert", place / "encoder", tokens="wordpiece")
    torch.manual_seed(4)
    task = tiny.of_kind("tagging").with_(units=units)
    model = new_head.for_task(source, task, "native")
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter *= 4
        model.classifier.bias[INSIDE] += 1
    (place / "model").mkdir()
    model_folder.save(model, place / "model", source, task)
    return place / "model"


@pytest.mark.parametrize(("units", "strategy"), [("characters", "simple"), ("words", "first")])
def test_entities_and_their_scores_are_those_of_the_pipeline(units: str, strategy: str, tmp_path: Path) -> None:
    folder = tagger(tmp_path, units)
    answers = Predictor.load(folder).predict(pa.table({"text": TEXTS})).to_pylist()
    peer = pipeline("token-classification", str(folder), aggregation_strategy=strategy, ignore_labels=["O"])
    compared, several = 0, 0
    for text, row in zip(TEXTS, answers, strict=True):
        theirs = peer(text)
        spans = [{"start": one["start"], "end": one["end"], "label": one["entity_group"]} for one in theirs]
        assert row["entities"] == spans
        assert row["entity_scores"] == pytest.approx([float(one["score"]) for one in theirs], abs=1e-5)
        compared += len(spans)
        several += sum(" " in text[span["start"] : span["end"]] for span in spans)
    assert compared > 6
    assert several, "some entity has several tags"
