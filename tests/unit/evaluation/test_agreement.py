"""Bounds of a share against scipy's, and thresholds that let through no more mistakes than asked."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, binomtest

from pipelines.evaluation import agreement

CONFIDENCES = st.floats(0.5, 0.999)


@given(st.integers(1, 400), st.data(), CONFIDENCES)
@settings(max_examples=60)
def test_bounds_are_those_of_clopper_and_pearson(rows: int, data: st.DataObject, confidence: float) -> None:
    count = data.draw(st.integers(0, rows))
    upper = binomtest(count, rows, alternative="less").proportion_ci(confidence, "exact").high
    lower = binomtest(count, rows, alternative="greater").proportion_ci(confidence, "exact").low
    assert agreement.upper_bound(count, rows, confidence) == pytest.approx(upper, abs=1e-9)
    assert agreement.lower_bound(count, rows, confidence) == pytest.approx(lower, abs=1e-9)


@given(st.integers(1, 5000), st.floats(0.5, 0.9999), CONFIDENCES)
@settings(max_examples=60)
def test_the_most_disagreements_are_the_last_that_show_the_agreement(
    rows: int, share: float, confidence: float
) -> None:
    most = agreement.most_disagreements(rows, share, confidence)
    assert most == -1 or agreement.upper_bound(most, rows, confidence) <= 1 - share
    assert agreement.upper_bound(most + 1, rows, confidence) > 1 - share
    assert (most >= 0) == (rows >= agreement.least_rows(share, confidence))


def test_what_the_page_says_of_the_usual_goal() -> None:
    assert agreement.least_rows(0.995, 0.95) == 598
    assert agreement.most_disagreements(2000, 0.995, 0.95) == 4


@given(st.lists(st.tuples(st.floats(0, 9, width=32), st.booleans()), min_size=1), st.integers(0, 5))
def test_a_threshold_is_the_least_that_lets_through_no_more_mistakes(rows: list[tuple[float, bool]], most: int) -> None:
    margins, agrees = (np.array(column) for column in zip(*rows, strict=True))
    threshold = agreement.threshold(margins, agrees, most)
    assert (~agrees & (margins > threshold)).sum() <= most
    for lower in [*margins[margins < threshold], *([-1.0] if threshold > -1 else [])]:
        assert (~agrees & (margins > lower)).sum() > most


@pytest.mark.soak
def test_the_confidence_holds_although_the_same_rows_choose_the_threshold() -> None:
    """4,000 draws of a student whose mistakes have small margins: too daring a threshold in 5% of them at most."""
    rng, rows, goal, failed = np.random.default_rng(3), 1500, 0.98, 0
    for _ in range(4000):
        margins = rng.exponential(1, rows)
        agrees = rng.random(rows) > 0.3 * np.exp(-1.5 * margins)
        threshold = agreement.threshold(margins, agrees, agreement.most_disagreements(rows, goal, 0.95))
        # the true share of rows above it that differ: the integral of exp(-m) 0.3 exp(-1.5 m)
        failed += 0.3 / 2.5 * np.exp(-2.5 * max(threshold, 0)) > 1 - goal
    assert failed <= binom.ppf(0.9999, 4000, 0.05)
    assert failed > 0
