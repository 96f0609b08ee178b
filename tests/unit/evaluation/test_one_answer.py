"""A model that says the same of every row is told of, in the metrics file and in the table."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pipelines.core import json_file, paths, tables
from pipelines.core.schema import ROWS, SAYS
from pipelines.core.task import Task
from pipelines.entries.evaluate import Evaluate
from pipelines.evaluation import one_answer, record
from pipelines.evaluation.split import Split
from pipelines.reports.run_tables import plain

SPAN = Task("t", "span", (), "f1")
TEXTS = {"question": ["a", "b", "c"], "context": ["d", "e", "f"]}
OF_SPANS = {"start": [0, 0, 0], "score": [0.5] * 3, "best": ["d"] * 3, "no_answer": [0.1] * 3}
GOLD = [[{"text": "d", "start": 0}], [{"text": "e", "start": 0}], [{"text": "f", "start": 0}]]
LABELS = Task("t", "single", ("no", "yes"), "accuracy")
TAGS = Task("t", "tagging", ("x",), "f1")
ENTITY = [{"start": 0, "end": 1, "label": "x"}]


def saved(task: Task, rows: dict[str, list], answers: dict[str, list]) -> dict[str, Any]:
    """The metrics file of three rows."""
    schema = ROWS[task.kind]
    table = pa.table({"id": ["1", "2", "3"], **rows}, schema=schema)
    tables.write(Path("test.parquet"), table.to_batches(), schema)
    split = Split(Path("test.parquet"), task)
    with paths.fresh_folder(paths.predictions("run")) as out:
        split.write(lambda part: pa.table({"id": ["1", "2", "3"], **answers}), out)
        facts: dict[str, Any] = {"how": "full", "model": {"size_bytes": 1}}
        record.save("run", "evaluate", Evaluate(task="t"), split, out, [], {}, **facts)
    return json_file.mapping(paths.metrics("run"))


def labels(predicted: list[str], gold: list[str | None]) -> dict[str, Any]:
    scores = {"score": [0.9] * 3, "scores": [[0.1, 0.9]] * 3}
    return saved(LABELS, {"text": ["a", "b", "c"], "label": gold}, {"label": predicted, **scores})


def test_one_label_for_all_rows_is_reported_recorded_and_marked(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    record = labels(["yes"] * 3, ["yes", "no", "yes"])
    assert record["only_answer"] == "yes"
    assert capsys.readouterr().err.splitlines()[-1] == (
        "evaluate run: it has learned nothing: its answer is 'yes' for all 3 rows"
    )
    assert "full (one answer)" in plain([record])
    record = labels(["yes", "no", "yes"], ["yes", "no", "yes"])
    assert "only_answer" not in record
    assert "one answer" not in plain([record]) + capsys.readouterr().err


def test_one_label_is_right_where_the_rows_have_one(checkout: Path) -> None:
    assert "only_answer" not in labels(["yes"] * 3, ["yes"] * 3)
    assert labels(["yes"] * 3, [None] * 3)["only_answer"] == "yes", "a leaderboard's rows have none to compare with"


def test_an_empty_answer_counts_as_an_answer(checkout: Path) -> None:
    assert saved(SPAN, {**TEXTS, "answers": GOLD}, {"answer": [""] * 3, **OF_SPANS})["only_answer"] == ""
    tagged = {"text": ["a", "b", "c"], "entities": [ENTITY, [], []]}
    assert saved(TAGS, tagged, {"entities": [[]] * 3, "score": [0.9] * 3})["only_answer"] == []
    values = {"text": ["a", "b", "c"], "text_pair": [""] * 3, "label": [1.0, 2.0, 3.0]}
    assert saved(Task("t", "regression", (), "pearson"), values, {"value": [2.5] * 3})["only_answer"] == 2.5


def test_a_single_row_is_not_judged() -> None:
    assert one_answer.only(["a"]) == one_answer.only([]) == one_answer.only(["a", "b"]) == []
    assert one_answer.only(["a", "a"]) == ["a"]
    assert set(SAYS) == {"single", "pair", "choice", "regression", "span", "tagging"}
