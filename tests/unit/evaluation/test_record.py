"""What an evaluation leaves behind, with labels and without."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.core.entries import Evaluate
from pipelines.core.task import Task
from pipelines.evaluation import record

LABELS = ("unacceptable", "acceptable")
TASK = Task("CoLA", "single", LABELS, "matthews", submission="CoLA.tsv", submits_ids=True)
ANSWERS = pa.table({"id": ["7", "8", "9"], "label": [LABELS[1], LABELS[0], LABELS[1]], "score": [0.9, 0.8, 0.7]})
TEXTS = ["a", "bb", "ccc"]


def saved(gold: list[str | None], task: Task = TASK) -> dict:
    rows = pa.table({"id": ["7", "8", "9"], "text": TEXTS, "label": pa.array(gold, pa.string())})
    record.save("run", "evaluate", Evaluate(task="cola"), task, rows, ANSWERS, [])
    return json.loads(Path("artifacts/metrics/run.json").read_text())


def test_labels_are_scored(checkout: Path) -> None:
    found = saved([LABELS[1], LABELS[0], LABELS[0]])
    assert found["metrics"]["accuracy"] == pytest.approx(2 / 3)
    assert found["metrics"]["f1"] == pytest.approx(2 / 3)
    assert not Path("artifacts/predictions/run/CoLA.tsv").exists()


def test_a_split_without_labels_becomes_the_leaderboards_file(checkout: Path) -> None:
    assert saved([None, None, None])["metrics"] == {}
    lines = Path("artifacts/predictions/run/CoLA.tsv").read_text().splitlines()
    assert lines == ["index\tprediction", "7\t1", "8\t0", "9\t1"]
    saved([None, None, None], TASK.with_(submission="RTE.tsv", submits_ids=False))
    assert Path("artifacts/predictions/run/RTE.tsv").read_text().splitlines()[1] == "7\tacceptable"
