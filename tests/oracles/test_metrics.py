"""Every metric has a second opinion."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest
from sklearn import metrics as sk

from pipelines.evaluation import metrics, significance

labels = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=60)


@given(labels)
def test_metrics_are_sklearns(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = np.array(pairs).T
    every = list(range(5))
    assert metrics.accuracy(gold, predicted, 5) == pytest.approx(sk.accuracy_score(gold, predicted))
    expected = sk.precision_recall_fscore_support(gold, predicted, labels=every, zero_division=0)
    assert metrics.per_class(gold, predicted, 5) == pytest.approx(np.stack(expected[:3], axis=1))
    macro = sk.f1_score(gold, predicted, average="macro", zero_division=0)  # over the labels that either side has
    assert metrics.macro_f1(gold, predicted, 5) == pytest.approx(macro)
    assert metrics.matthews(gold, predicted, 5) == pytest.approx(_matthews(gold, predicted))
    table = sk.confusion_matrix(gold, predicted, labels=every)
    assert metrics.confusion(gold, predicted, 5).tolist() == table.tolist()


def _matthews(gold: np.ndarray, predicted: np.ndarray) -> float:
    """sklearn's, which warns where one label is all there is; the coefficient is 0 there."""
    if len(set(gold)) == 1 or len(set(predicted)) == 1:
        return 0.0
    return float(sk.matthews_corrcoef(gold, predicted))


def test_matthews_by_hand() -> None:
    gold = np.array([1, 1, 1, 0, 0, 0, 0, 0])
    predicted = np.array([1, 1, 0, 0, 0, 0, 0, 1])
    # TP 2, TN 4, FP 1, FN 1: (2 * 4 - 1 * 1) / sqrt(3 * 3 * 5 * 5)
    assert metrics.matthews(gold, predicted, 2) == pytest.approx(7 / 15)


def test_a_bootstrap_interval_covers_the_binomials_own() -> None:
    gold, predicted = np.zeros(400, int), (np.arange(400) < 100).astype(int)  # accuracy 0.75
    low, high = significance.interval(lambda rows: metrics.accuracy(gold[rows], predicted[rows], 2), 400)
    error = 1.96 * np.sqrt(0.75 * 0.25 / 400)
    assert (low, high) == pytest.approx((0.75 - error, 0.75 + error), abs=0.01)
    assert significance.interval(lambda rows: float(len(set(rows)) < 400), 400) == (1.0, 1.0)  # some rows come twice


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=60))
def test_f1_of_two_classes_is_sklearns(pairs: list[tuple[int, int]]) -> None:
    gold, predicted = np.array(pairs).T
    assert metrics.f1(gold, predicted, 2) == pytest.approx(sk.f1_score(gold, predicted, zero_division=0))


def test_an_interval_of_rows_in_groups_is_too_narrow() -> None:
    """30 customers with 20 rows each, right on 80% of them in the mean: docs/using.md has the share of draws."""
    draw, covered = np.random.default_rng(0), 0
    for _ in range(100):
        right = (draw.random((30, 20)) < draw.beta(1.6, 0.4, (30, 1))).ravel()
        low, high = significance.interval(lambda rows, right=right: float(right[rows].mean()), 600, samples=200)
        covered += low <= 0.8 <= high
    assert 40 <= covered <= 65


@given(st.integers(0, 40), st.integers(0, 40))
def test_the_sign_test_is_scipys(won: int, lost: int) -> None:
    expected = binomtest(won, won + lost).pvalue if won + lost else 1.0
    assert significance.sign_test(won, won + lost) == pytest.approx(expected)


@given(st.integers(1, 500), st.integers(0, 500))
def test_the_interval_of_a_share_is_scipys(size: int, hits: int) -> None:
    hits = min(hits, size)
    low, high = binomtest(hits, size).proportion_ci(0.95, "wilson")
    assert significance.share_interval(hits / size, size) == pytest.approx((low, high), abs=1e-6)


def test_rows_that_repeat_are_worth_fewer() -> None:
    assert significance.effective_size(np.ones(50, np.int64)) == 50
    assert significance.effective_size(np.full(50, 9)) == 50
    assert significance.effective_size(np.array([100, 1])) == pytest.approx(101**2 / (100**2 + 1))
