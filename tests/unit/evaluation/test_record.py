"""What an evaluation leaves behind, with labels and without."""

import json
from pathlib import Path

import pyarrow as pa
import pytest

from pipelines.core import paths, tables
from pipelines.core.task import Task
from pipelines.entries.evaluate import Evaluate
from pipelines.evaluation import record
from pipelines.evaluation.split import Split

LABELS = ("unacceptable", "acceptable")
TASK = Task("CoLA", "single", LABELS, "matthews", submission="CoLA.tsv", submits_ids=True)
ANSWERS = pa.table({"id": ["7", "8", "9"], "label": [LABELS[1], LABELS[0], LABELS[1]], "score": [0.9, 0.8, 0.7]})
TEXTS = ["a", "bb", "ccc"]
TIMINGS = {"latency_ms": {"p50": 1.5, "p99": 2.0}, "rows_per_second": 3}


def saved(gold: list[str | None], task: Task = TASK, split_name: str = "test") -> dict:
    rows = pa.table({"id": ["7", "8", "9"], "text": TEXTS, "label": pa.array(gold, pa.string())})
    tables.write(Path("test.parquet"), rows.to_batches(), rows.schema)
    split = Split(Path("test.parquet"), task)
    with paths.fresh_folder(paths.predictions("run")) as out:
        split.write(lambda part: ANSWERS, out)
        record.save("run", "evaluate", Evaluate(task="cola", split=split_name), split, out, [], TIMINGS, how="by hand")
    assert json.loads(Path("artifacts/timings/run.json").read_text()) == TIMINGS
    return json.loads(Path("artifacts/metrics/run.json").read_text())


def test_labels_are_scored(checkout: Path) -> None:
    record = saved([LABELS[1], LABELS[0], LABELS[0]])
    assert (record["run"], record["rows"], record["split"], record["how"]) == ("run", 3, "test", "by hand")
    assert not record.keys() & TIMINGS.keys()  # they differ from run to run
    assert record["metrics"]["accuracy"] == pytest.approx(2 / 3)
    assert record["metrics"]["f1"] == pytest.approx(2 / 3)
    assert not Path("artifacts/predictions/run/CoLA.tsv").exists()
    low, high = record["interval"]
    compared = {"matthews": record["metrics"]["matthews"], "low": low, "high": high}
    assert json.loads(paths.scores("run").read_text()) == compared


def test_what_dvc_compares_has_the_loss_at_the_end_of_a_training() -> None:
    curve = [[1, {"loss": 2.0}], [9, {"loss": 0.5, "accuracy": 0.75}]]
    assert record.summary({"metrics": {}, "curve": curve}) == {"loss": 0.5}
    assert record.summary({"metrics": {}, "curve": []}) == {}


def test_a_split_without_labels_becomes_the_leaderboards_file(checkout: Path) -> None:
    assert saved([None, None, None])["metrics"] == {}
    lines = Path("artifacts/predictions/run/CoLA.tsv").read_text().splitlines()
    assert lines == ["index\tprediction", "7\t1", "8\t0", "9\t1"]
    saved([None, None, None], TASK.with_(submission="RTE.tsv", submits_ids=False))
    assert Path("artifacts/predictions/run/RTE.tsv").read_text().splitlines()[1] == "7\tacceptable"
    saved([None, None, None], TASK.with_(submission="MNLI-m.tsv"), "test_mismatched")
    assert Path("artifacts/predictions/run/MNLI-mm.tsv").is_file(), "the board takes both files"
