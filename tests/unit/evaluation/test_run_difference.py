"""Runs by hand: the difference of two (rows gained and lost, slices, params, costs), and what one misreads."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from pipelines.core import paths, provenance, schema, tables
from pipelines.core.errors import InputError, UsageError
from pipelines.core.task import Task
from pipelines.entries.evaluate import Evaluate
from pipelines.evaluation import misread_rows, record, row_scores, run_difference
from pipelines.evaluation.prediction_scores import metric_of_rows
from pipelines.evaluation.split import Split
from pipelines.reports import difference_text
from tests.support import commands, json_answers

TASK = Task("t", "single", ("no", "yes"), "accuracy")
COUNT = 80
GOLD = ["yes" if i % 2 else "no" for i in range(COUNT)]
OTHER = {"yes": "no", "no": "yes"}
TEXTS = [("片 " if i < 40 else "x ") + "y" * (1 + i % 9) for i in range(COUNT)]


def predicted(wrong: set[int]) -> pa.Table:
    labels = [OTHER[gold] if i in wrong else gold for i, gold in enumerate(GOLD)]
    columns = {
        "id": list(map(str, range(COUNT))),
        "label": labels,
        "score": [0.5 + i / 1000 for i in range(COUNT)],
        "scores": [[0.1, 0.9]] * COUNT,
    }
    return pa.table(columns).cast(schema.PREDICTIONS["single"])


def write_rows(task: Task = TASK) -> Split:
    folder = paths.rows(task.name)
    rows = pa.table({"id": list(map(str, range(COUNT))), "text": TEXTS, "label": GOLD}).cast(schema.ROWS["single"])
    folder.mkdir(parents=True, exist_ok=True)
    tables.write(folder / "test.parquet", rows.to_batches(), rows.schema)
    task.save(folder)
    provenance.write(folder, "prepare", {}, [])
    return Split(folder / "test.parquet", task)


def evaluated(
    run: str, wrong: set[int], split: Split, size: int = 1_000_000, katakana: str = "片", **params: Any
) -> None:
    paths.model(run).mkdir(parents=True)
    provenance.write(paths.model(run), "finetune", params, [])
    entry = Evaluate(task=split.task.name, slices={"katakana": katakana})
    with paths.fresh_folder(paths.predictions(run)) as out:
        split.write(lambda part: predicted(wrong).take(pa.array(map(int, part.column("id").to_pylist()))), out)
        record.save(run, "evaluate", entry, split, out, [split.path.parent], {}, how="full", model={"size_bytes": size})


@pytest.fixture
def runs(checkout: Path) -> Split:
    split = write_rows()
    evaluated("old", {0, 1, *range(10, 30)}, split, epochs=1, fit={"seed": 1})
    evaluated("new", {0, 50}, split, size=500_000, epochs=3, fit={"seed": 1}, dev="dev")
    return split


def test_rows_params_slices_and_costs(runs: Split) -> None:
    answer = run_difference.difference("old", "new", shown=3)
    assert answer["rows"] == {"all": 80, "changed": 22, "gained": 21, "lost": 1, "neither": 0}
    assert answer["params"] == [
        {"param": "epochs", "first": 1, "second": 3},
        {"param": "dev", "first": "-", "second": "dev"},
    ]
    assert [row["id"] for row in answer["gained"]] == ["1", "10", "11"]
    lost = {"id": "50", "inputs": {"text": TEXTS[50]}, "gold": "no", "first": "no", "second": "yes"}
    assert answer["lost"] == [lost]
    score = answer["score"]
    assert (score["first"], score["second"]) == pytest.approx((1 - 22 / 80, 1 - 2 / 80))
    assert score["verdict"] == "won"
    slices = {line["slice"]: line for line in answer["slices"]}
    assert slices["katakana"]["difference"] == pytest.approx(21 / 40)
    assert slices["katakana"]["verdict"] == "won"
    assert {"no", "yes"} < set(slices)
    assert slices["yes"] | {"interval": 0} == {
        "slice": "yes", "metric": "recall", "rows": 40, "first": pytest.approx(1 - 11 / 40), "second": 1.0,
        "difference": pytest.approx(11 / 40), "verdict": "won", "interval": 0,
    }  # fmt: skip
    assert answer["costs"][0] == {"cost": "size_bytes", "first": 1_000_000, "second": 500_000}


def test_slices_of_one_name_and_two_patterns_stand_apart(runs: Split) -> None:
    evaluated("newer", {0, 50}, runs, katakana="^x")
    slices = {line["slice"]: line for line in run_difference.difference("old", "newer")["slices"]}
    assert "katakana" not in slices
    of_old, of_newer = (slices[f"katakana ({run})"] for run in ("old", "newer"))
    assert (of_old["rows"], of_newer["rows"]) == (40, 40)
    assert of_old["difference"] == pytest.approx(21 / 40)
    assert of_newer["difference"] == pytest.approx(-1 / 40)


def test_the_other_way_round_what_was_won_is_lost(runs: Split) -> None:
    there, back = run_difference.difference("old", "new"), run_difference.difference("new", "old")
    assert [line["verdict"] for line in back["slices"]] == [
        {"won": "lost", "lost": "won", "open": "open"}[line["verdict"]] for line in there["slices"]
    ]
    assert (back["rows"]["gained"], back["rows"]["lost"]) == (there["rows"]["lost"], there["rows"]["gained"])
    same = run_difference.difference("new", "new")
    assert same["rows"]["changed"] == 0
    assert same["score"]["interval"] == [0, 0]


def test_a_slice_with_few_gained_rows_is_open(checkout: Path) -> None:
    split = write_rows()
    for run, wrong in (("old", {0, 2, 4, 6, 8, 41, 43, 45, 47, 49, 51}), ("new", set())):
        evaluated(run, wrong, split)
    evaluated("newer", {8, 41, 43, 45, 47, 49, 51}, split)
    shorter = run_difference.difference("old", "newer")
    assert shorter["score"]["verdict"] == "open"
    assert ", but too few rows differ: undecided\n" in difference_text.plain(shorter)
    slices = {line["slice"]: line for line in run_difference.difference("old", "new")["slices"]}
    assert [(slices[label]["difference"] * 40, slices[label]["verdict"]) for label in ("no", "yes")] == [
        (pytest.approx(5), "open"),
        (pytest.approx(6), "won"),
    ]
    assert all(slices[label]["interval"][0] > 0 for label in ("no", "yes"))


@pytest.mark.parametrize("count", [1, 3, 10, 30])
def test_slices_of_equally_good_runs_are_rarely_won_or_lost(count: int) -> None:
    draw, decided = np.random.default_rng(1), 0
    for _ in range(60):
        first, second = right = (draw.random((2, count)) < 0.7).astype(float)
        value = [lambda rows, scores=scores: float(scores[rows].mean()) for scores in right]
        decided += run_difference._compared(value, np.arange(count), second - first)["verdict"] != "open"
    assert decided <= 6  # 3 are expected at most


def test_runs_that_cannot_be_compared_are_refused(runs: Split) -> None:
    with pytest.raises(UsageError, match="no such run is evaluated"):
        run_difference.difference("old", "newer")
    evaluated("elsewhere", set(), write_rows(TASK.with_(name="u")))
    with pytest.raises(UsageError, match="old answered t test, elsewhere u test"):
        run_difference.difference("old", "elsewhere")
    provenance.write(runs.path.parent, "prepare", {"another": 1}, [])
    with pytest.raises(InputError, match="changed after one of the runs was evaluated"):
        run_difference.difference("old", "new")


def test_the_command_prints_a_screen_or_json(runs: Split) -> None:
    text = commands.bertline("diff old new --rows 1").require(0).out
    assert "accuracy 0.7250 -> 0.9750" in text
    assert "rows: 22 of 80 answers changed; 21 gained, 1 lost, 0 neither" in text
    assert "  50: x yyyyyy\n    gold: no; old: no; new: yes" in text
    as_json = commands.bertline("diff old new --json --quiet").require(0).out
    assert json.loads(as_json) == run_difference.difference("old", "new")
    assert difference_text.plain(json.loads(as_json)).startswith("new against old on t test: ")
    commands.bertline("diff old newer").require(2)


def test_what_a_run_misreads_is_counted_by_label_and_listed_the_surest_first(runs: Split) -> None:
    answer = misread_rows.misread("old", shown=2)
    assert (answer["rows"], answer["misread"], answer["score"]) == (80, 22, pytest.approx(1 - 22 / 80))
    assert answer["confusions"] == [
        {"gold": "no", "answer": "yes", "rows": 11},
        {"gold": "yes", "answer": "no", "rows": 11},
    ]
    assert [row["id"] for row in answer["listed"]] == ["29", "28"]
    assert answer["listed"][0]["inputs"] == {"text": TEXTS[29]}
    text = commands.bertline("misread old --rows 1").require(0).out
    assert text.startswith(
        "old on t test: accuracy 0.7250; 22 of 80 rows are not answered right\n\ngold  answer  rows\n"
    )
    assert text.endswith("the worst 1 of 22\n  29: 片 yyy\n    gold: yes; answer: no (0.529)\n")
    json_answers.require_keys("misread", commands.bertline("misread old --json").require(0).out)
    commands.bertline("misread older").require(2)
    provenance.write(runs.path.parent, "prepare", {"another": 1}, [])
    with pytest.raises(InputError, match="changed after old was evaluated; `bertline run` brings it up to date"):
        misread_rows.misread("old")


ENTITY = {"start": 0, "end": 1, "label": "a"}
KINDS = {
    "span": (
        Task("s", "span", (), "f1"),
        {"answers": [[{"text": "x y", "start": 0}]] * 3},
        {"answer": ["x y", "x", "z"], "start": [0] * 3, "score": [1.0] * 3, "best": [""] * 3, "no_answer": [0.0] * 3},
        [1, 2 / 3, 0],
    ),
    "tagging": (
        Task("t", "tagging", ("a",), "f1"),
        {"entities": [[ENTITY], [ENTITY], []]},
        {
            "entities": [[ENTITY], [{**ENTITY, "end": 2}, ENTITY], []],
            "score": [1.0] * 3,
            "entity_scores": [[1.0], [1.0, 1.0], []],
        },
        [1, 2 / 3, 1],
    ),
    "regression": (
        Task("r", "regression", (), "pearson"),
        {"label": [1.0, 2.0, 3.0]},
        {"value": [1.0, 2.5, 1.0]},
        [0, -0.5, -2],
    ),
    "single": (
        TASK,
        {"label": ["no", "yes", "no"]},
        {"label": ["no"] * 3, "score": [1.0] * 3, "scores": [[1.0, 0.0]] * 3},
        [1, 0, 1],
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_score_of_a_row_is_the_metric_of_it_alone(kind: str) -> None:
    task, gold, answers, expected = KINDS[kind]
    rows = pa.table({"id": ["a", "b", "c"], **gold})
    predictions = pa.table({"id": ["a", "b", "c"], **answers}).cast(schema.PREDICTIONS[kind])
    scores = row_scores.of(rows, predictions, task)
    assert scores == pytest.approx(expected)
    if kind in ("span", "single"):
        value = metric_of_rows(rows, predictions, task)
        assert scores == pytest.approx([value(np.array([i])) for i in range(3)])
