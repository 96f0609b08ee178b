"""Intervals, slices and calibration: of every kind, by hand and by sklearn."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.calibration import calibration_curve

from pipelines.core import schema
from pipelines.core.errors import UsageError
from pipelines.core.task import Task
from pipelines.entries.parts.scored import OF_KIND
from pipelines.evaluation import analysis
from pipelines.evaluation.prediction_scores import metric_of_rows, score

RNG = np.random.default_rng(0)
COUNT = 60
IDS = [str(i) for i in range(COUNT)]
TEXTS = ["x" * (1 + i % 13) for i in range(COUNT)]
QUARTERS = (
    (3, 7),
    (9, 13),
    (15, 21),
    (23, 27),
)  # of two such texts and a line's end, by the 15th, 30th and 45th of them
ENTITY = {"start": 0, "end": 1, "label": "a"}


def labels(kind: str, **more: list) -> tuple[Task, pa.Table, pa.Table]:
    gold, predicted = (["ab"[i] for i in RNG.integers(0, 2, COUNT)] for _ in range(2))
    answers = {"id": IDS, "label": predicted, "score": RNG.uniform(0.5, 1, COUNT), "scores": [[0.5, 0.5]] * COUNT}
    rows = {"id": IDS, "text": TEXTS, "label": gold, **more}
    return Task(kind, kind, ("a", "b"), "matthews"), pa.table(rows), table(answers, kind)


def table(columns: dict, kind: str) -> pa.Table:
    return pa.table(columns).cast(schema.PREDICTIONS[kind])


def span() -> tuple[Task, pa.Table, pa.Table]:
    answers = [[{"text": "x y", "start": 0}] if i % 3 else [] for i in range(COUNT)]
    predicted = [("x y", "x", "", "z")[i % 4] for i in range(COUNT)]
    rows = pa.table({"id": IDS, "question": TEXTS, "context": TEXTS, "answers": answers})
    rest = {"start": [0] * COUNT, "score": [1.0] * COUNT, "best": predicted, "no_answer": [0.0] * COUNT}
    return Task("s", "span", (), "f1", unanswerable=True), rows, table({"id": IDS, "answer": predicted, **rest}, "span")


def tagging() -> tuple[Task, pa.Table, pa.Table]:
    rows = pa.table({"id": IDS, "text": TEXTS, "entities": [[ENTITY] * (i % 4) for i in range(COUNT)]})
    entities = [[ENTITY] * (i % 2) for i in range(COUNT)]
    scores = [[1.0] * (i % 2) for i in range(COUNT)]
    return (
        Task("t", "tagging", ("a",), "f1"),
        rows,
        table({"id": IDS, "entities": entities, "score": [1.0] * COUNT, "entity_scores": scores}, "tagging"),
    )


def regression() -> tuple[Task, pa.Table, pa.Table]:
    gold = RNG.uniform(0, 5, COUNT)
    rows = pa.table({"id": IDS, "text": TEXTS, "text_pair": TEXTS, "label": gold})
    return (
        Task("r", "regression", (), "pearson"),
        rows,
        table({"id": IDS, "value": gold + RNG.normal(0, 1, COUNT)}, "regression"),
    )


CASES = {
    "single": labels("single"),
    "pair": labels("pair", text_pair=TEXTS),
    "choice": labels("choice", choices=[["c", "d"]] * COUNT),
    "span": span(),
    "tagging": tagging(),
    "regression": regression(),
}


def analysed(rows: pa.Table, answers: pa.Table, task: Task, patterns: dict | None = None) -> dict:
    """As a record has it: targets of all rows, texts in parts of seven rows."""
    targets = rows.select(["id", schema.TARGETS[task.kind]])
    return analysis.analysis(targets, answers, task, patterns or {}, rows.to_batches(7))


def test_every_kind_is_tested() -> None:
    assert set(CASES) == set(schema.PREDICTIONS)


@pytest.mark.parametrize("kind", CASES)
def test_the_score_of_all_rows_is_the_metric_and_its_interval_holds_it(kind: str) -> None:
    task, rows, answers = CASES[kind]
    whole = score(rows, answers, task)["metrics"][task.metric]
    assert metric_of_rows(rows, answers, task)(np.arange(COUNT)) == pytest.approx(whole)
    low, high = analysed(rows, answers, task)["interval"]
    assert low < whole < high
    assert high - low < 0.6


@pytest.mark.parametrize("kind", CASES)
def test_a_slice_scores_as_its_rows_alone_would(kind: str) -> None:
    task, rows, answers = CASES[kind]
    slices = analysed(rows, answers, task, {"long": "x{10}"})["slices"]
    quarters = [part for part in slices if part["slice"].endswith("characters")]
    assert len(quarters) == 4
    assert sum(part["rows"] for part in quarters) == COUNT
    picked = [i for i, text in enumerate(TEXTS) if len(text) >= 10]
    alone = score(rows.take(picked), answers.take(picked), task)["metrics"][task.metric]
    assert slices[-1] == {"slice": "long", "rows": len(picked), "score": pytest.approx(alone), "pattern": "x{10}"}
    names = {part["slice"] for part in slices}
    assert ({"an answer", "no answer"} <= names) == (kind == "span")
    assert ({"no entity", "1 entity", "2 or more"} <= names) == (kind == "tagging")


@pytest.mark.parametrize("name", ["pearson", "spearman"])
def test_the_metric_of_rows_is_the_one_that_the_task_names(name: str) -> None:
    task, rows, answers = CASES["regression"]
    task = task.with_(metric=name)
    assert metric_of_rows(rows, answers, task)(np.arange(COUNT)) == score(rows, answers, task)["metrics"][name]


def test_right_answers_score_1_in_every_slice_and_sample_without_rare_labels() -> None:
    gold = ["c"] * (COUNT - 1) + ["d"]
    rows = pa.table({"id": IDS, "text": TEXTS, "label": gold})
    rest = {"score": [1.0] * COUNT, "scores": [[0.0, 0.0, 1.0, 0.0]] * COUNT}
    task = Task("s", "single", ("a", "b", "c", "d"), "macro_f1")
    report = analysed(rows, table({"id": IDS, "label": gold, **rest}, "single"), task)
    assert {part["score"] for part in report["slices"]} == {1.0}
    assert report["interval"] == [1.0, 1.0]


@pytest.mark.parametrize("metric", ["matthews", "f1", "macro_f1", "accuracy"])
def test_a_slice_that_right_answers_score_0_has_no_score(metric: str) -> None:
    gold = ["ab"[len(text) > 6] for text in TEXTS]
    rows = pa.table({"id": IDS, "text": TEXTS, "label": gold})
    rest = {"score": [1.0] * COUNT, "scores": [[0.5, 0.5]] * COUNT}
    task, answers = Task("s", "single", ("a", "b"), metric), table({"id": IDS, "label": gold, **rest}, "single")
    patterns = {"only a": "^x{1,6}$", "only b": "x{7}", "both": "x"}
    scores = {part["slice"]: part["score"] for part in analysed(rows, answers, task, patterns)["slices"]}
    expected = {"matthews": (None, None, 1.0), "f1": (None, 1.0, 1.0)}.get(metric, (1.0, 1.0, 1.0))
    assert tuple(scores[name] for name in patterns) == pytest.approx(expected)


def test_a_slice_of_equal_numbers_has_no_score() -> None:
    task, rows, answers = CASES["regression"]
    slices = analysed(rows.set_column(3, "label", pa.array([1.0, 2.0] * 30)), answers, task, {"even": "^x{3}\n"})
    assert [part["score"] for part in slices["slices"]][-1] is not None
    slices = analysed(rows.set_column(3, "label", pa.array([1.0] * 59 + [2.0])), answers, task, {"short": "^x{3}\n"})
    assert [part["score"] for part in slices["slices"]][-1] is None


def test_tags_of_rows_without_an_entity_score_the_share_where_none_is_named() -> None:
    task, rows, answers = CASES["tagging"]
    no_entity = [i for i in range(COUNT) if i % 4 == 0]
    named = [[ENTITY] if i in no_entity[:3] else row for i, row in enumerate(rows["entities"].to_pylist())]
    for entities, expected in ((rows["entities"].to_pylist(), 1.0), (named, 0.8)):
        scores = [[1.0] * len(row) for row in entities]
        columns = {"id": IDS, "entities": entities, "score": [1.0] * COUNT, "entity_scores": scores}
        by_name = {p["slice"]: p["score"] for p in analysed(rows, table(columns, "tagging"), task)["slices"]}
        assert by_name["no entity"] == expected
        assert by_name["2 or more"] == 1
    none = rows.set_column(2, "entities", pa.array([[]] * COUNT, rows["entities"].type))
    assert metric_of_rows(none, answers, task)(np.arange(COUNT)) == 0, "the whole split's F1 is seqeval's"


def test_the_slices_of_a_kind_hold_what_their_names_say() -> None:
    def rows(kind: str) -> dict[str, int]:
        task, table, answers = CASES[kind]
        return {part["slice"]: part["rows"] for part in analysed(table, answers, task)["slices"]}

    assert {"an answer": 40, "no answer": 20}.items() <= rows("span").items()
    assert {"no entity": 15, "1 entity": 15, "2 or more": 30}.items() <= rows("tagging").items()
    task, table, answers = CASES["span"]
    every = analysed(table, answers, task.with_(unanswerable=False))["slices"]
    assert [part["slice"] for part in every] == [f"{a} to {b} characters" for a, b in QUARTERS]
    for kind in CASES:
        names = rows(kind)
        assert names
        assert not [name for name in names if not OF_KIND.fullmatch(name)], "`bertline check` knows them"


@pytest.mark.parametrize("kind", CASES)
def test_only_probabilities_of_labels_are_calibrated(kind: str) -> None:
    task, rows, answers = CASES[kind]
    analysed_record = analysed(rows, answers, task)
    assert ("calibration" in analysed_record) == (kind in ("single", "pair", "choice"))
    if kind == "single":
        right = np.array(rows["label"].to_pylist()) == np.array(answers["label"].to_pylist())
        assert analysed_record["calibration"] == analysis.calibration(answers["score"].to_numpy(), right)


def test_a_slice_that_is_none_is_refused() -> None:
    task, rows, answers = CASES["single"]
    with pytest.raises(UsageError, match=r"slices\.q: no row matches 'q.9.'"):
        analysed(rows, answers, task, {"q": "q{9}"})
    with pytest.raises(UsageError, match=r"slices\.q: '\(' is not a regular expression"):
        analysed(rows, answers, task, {"q": "("})


def test_calibration_by_hand() -> None:
    calibration = analysis.calibration(np.array([0.9, 0.9, 0.9, 0.9, 0.6, 0.6]), np.array([1, 1, 1, 0, 1, 1], bool))
    assert [line["rows"] for line in calibration["bins"]] == [2, 4]
    assert calibration["expected_error"] == pytest.approx((2 * 0.4 + 4 * 0.15) / 6)


@given(st.lists(st.tuples(st.floats(0.001, 0.999), st.booleans()), min_size=1, max_size=80))
def test_calibration_bins_are_sklearns(pairs: list[tuple[float, bool]]) -> None:
    confidence, right = (np.array(column) for column in zip(*pairs, strict=True))
    edges = np.isclose(confidence * analysis.BINS, np.round(confidence * analysis.BINS))
    confidence = confidence + 1e-6 * edges  # an edge belongs to the bin below with us, above with sklearn
    measured = analysis.calibration(confidence, right)
    accuracy, mean = calibration_curve(right, confidence, n_bins=analysis.BINS)
    assert [line["accuracy"] for line in measured["bins"]] == pytest.approx(accuracy.tolist())
    assert [line["confidence"] for line in measured["bins"]] == pytest.approx(mean.tolist())
