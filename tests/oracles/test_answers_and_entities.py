"""Second opinions on the metrics of numbers, answers and entities."""

import numpy as np
import pyarrow as pa
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from pipelines.core.task import Task
from pipelines.evaluation import answer_scores, correlation, entities
from pipelines.evaluation.prediction_scores import score

numbers = st.lists(st.tuples(st.integers(0, 5), st.integers(-3, 8)), min_size=3, max_size=40)


def test_a_constant_side_has_no_correlation() -> None:
    for count in range(2, 30):  # the mean of 0.1 and of 0.7 is rounded for some
        assert correlation.pearson(np.full(count, 0.7), np.full(count, 0.1)) == 0
        assert correlation.pearson(np.arange(count), np.full(count, 0.1)) == 0


@given(numbers)
def test_correlations_are_scipys(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = np.array(pairs, float).T
    if len(set(gold)) == 1 or len(set(predicted)) == 1:
        assert correlation.pearson(gold, predicted) == correlation.spearman(gold, predicted) == 0
        return
    assert correlation.pearson(gold, predicted) == pytest.approx(scipy.stats.pearsonr(gold, predicted)[0], abs=1e-9)
    assert correlation.spearman(gold, predicted) == pytest.approx(scipy.stats.spearmanr(gold, predicted)[0], abs=1e-9)
    assert correlation.scores(gold, predicted)["mean_squared_error"] == pytest.approx(
        sk.mean_squared_error(gold, predicted)
    )


# worked by hand, by the rules of evaluate-v1.1.py and evaluate-v2.0.py: lower case, no punctuation, no articles
@pytest.mark.parametrize(
    ("predicted", "meant", "exact", "f1"),
    [
        ("The Eiffel Tower", "eiffel tower!", 1, 1),
        ("Paris, France", "Paris", 0, 2 / 3),
        ("a b b c", "b b d", 0, 2 / 3),  # {b, b} in common; "a" is an article: 2 * 2 / (3 + 3)
        ("London", "Paris", 0, 0),
        ("", "", 1, 1),
        ("", "Paris", 0, 0),
        ("the", "a", 1, 1),  # nothing is left of either
    ],
)
def test_answers_are_compared_as_the_official_scripts_do(predicted: str, meant: str, exact: float, f1: float) -> None:
    assert answer_scores.exact(predicted, meant) == exact
    assert answer_scores.f1(predicted, meant) == pytest.approx(f1)


@pytest.mark.parametrize(
    ("predicted", "meant", "exact", "f1"),
    [
        ("「東京都」", "東京都", 1, 1),
        ("ＡＢＣ", "abc", 1, 1),
        ("東京", "東京都", 0, 0.8),
        ("京都", "東京都", 0, 0.8),
        ("大阪", "東京都", 0, 0),
    ],
)
def test_japanese_answers_are_compared_by_character(predicted: str, meant: str, exact: float, f1: float) -> None:
    assert answer_scores.exact(predicted, meant, "nfkc") == exact
    assert answer_scores.f1(predicted, meant, "nfkc") == pytest.approx(f1)


def test_the_best_of_several_answers_counts_and_no_answer_is_right_where_there_is_none() -> None:
    scores = answer_scores.scores(["Paris", "in 1999", ""], [["London", "Paris"], ["1999"], []])
    assert scores == pytest.approx(
        {
            "exact": 2 / 3,
            "f1": (1 + 2 / 3 + 1) / 3,
            "answered_exact": 0.5,
            "answered_f1": (1 + 2 / 3) / 2,
            "unanswerable_exact": 1,
            "unanswerable_f1": 1,
        }
    )


questions = st.lists(
    st.tuples(st.sampled_from(["x", "y z", "w"]), st.floats(-5, 5), st.sampled_from([["x"], ["z"], []])),
    min_size=1,
    max_size=20,
)


@given(questions)
def test_the_best_threshold_is_the_best_of_all(rows: list[tuple[str, float, list[str]]]) -> None:
    best, gaps, gold = (list(column) for column in zip(*rows, strict=True))
    scores = answer_scores.best_threshold(best, gaps, gold)

    def f1_at(threshold: float) -> float:
        predicted = [b if gap <= threshold else "" for b, gap in zip(best, gaps, strict=True)]
        return answer_scores.scores(predicted, gold)["f1"]

    assert scores["best_f1"] == pytest.approx(max(f1_at(t) for t in [min(gaps) - 1, *gaps]))
    assert f1_at(scores["best_f1_threshold"]) == pytest.approx(scores["best_f1"])


def entity(start: int, end: int, label: str) -> dict:
    return {"start": start, "end": end, "label": label}


# worked by hand: 2 of 4 named are right, of 3 that are there
GOLD = [[entity(0, 2, "PER"), entity(5, 7, "LOC")], [entity(1, 4, "PER")], []]
SAID = [[entity(0, 2, "PER"), entity(5, 8, "LOC")], [entity(1, 4, "PER")], [entity(0, 1, "ORG")]]


def test_entities_are_counted_whole() -> None:
    scores = entities.scores(GOLD, SAID)
    assert scores[""] == pytest.approx({"precision": 2 / 4, "recall": 2 / 3, "f1": 4 / 7})
    assert scores["PER"] == pytest.approx({"precision": 1, "recall": 1, "f1": 1})
    assert scores["LOC"]["f1"] == scores["ORG"]["f1"] == 0


places = st.lists(
    st.lists(st.builds(entity, st.integers(0, 3), st.integers(4, 6), st.sampled_from(["A", "B"])), max_size=4),
    min_size=1,
    max_size=8,
)


@given(places, st.randoms(use_true_random=False))
def test_entity_scores_are_sklearns_over_all_that_either_side_names(gold: list, random: object) -> None:
    gold = [[dict(t) for t in {tuple(e.items()) for e in row}] for row in gold]
    predicted = [[e if random.random() < 0.6 else {**e, "label": "A"} for e in row] for row in gold]
    predicted = [[dict(t) for t in {tuple(e.items()) for e in row}] for row in predicted]
    sides = [{(i, *e.values()) for i, row in enumerate(rows) for e in row} for rows in (gold, predicted)]
    every = sorted(sides[0] | sides[1])
    if not every:
        return
    expected = sk.precision_recall_fscore_support(
        [e in sides[0] for e in every], [e in sides[1] for e in every], average="binary", zero_division=0
    )
    assert list(entities.scores(gold, predicted)[""].values()) == pytest.approx(expected[:3])


def test_entities_that_nobody_names_or_that_are_not_there_score_nothing() -> None:
    named = [[entity(0, 2, "a")]]
    assert set(entities.scores([[]], named)[""].values()) == {0.0}
    assert set(entities.scores(named, [[]])[""].values()) == {0.0}
    assert set(entities.scores([[]], [[]])[""].values()) == {0.0}


def test_a_task_of_each_kind_is_scored_by_its_own_metric() -> None:
    rows = pa.table({"id": ["1", "2"], "label": [1.0, 3.0]})
    record = score(rows, pa.table({"id": ["2", "1"], "value": [5.0, 2.0]}), Task("t", "regression", (), "pearson"))
    assert record["metrics"]["pearson"] == pytest.approx(1)
    assert record["metrics"]["mean_squared_error"] == pytest.approx(2.5)
    answers = [[{"text": "犬", "start": 0}], []]
    rows = pa.table({"id": ["1", "2"], "answers": answers})
    predicted = pa.table({"id": ["1", "2"], "answer": ["犬", "猫"], "best": ["犬", "猫"], "no_answer": [-1.0, -0.5]})
    task = Task("t", "span", (), "f1", language="ja", unanswerable=True)
    record = score(rows, predicted, task)["metrics"]
    assert (record["f1"], record["best_f1"]) == (0.5, 1.0)
    assert -1 <= record["best_f1_threshold"] < -0.5
