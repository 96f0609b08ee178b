"""Drift by hand: each distance, what chance gives, and the rule of an alarm."""

import math

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.entries.watch import Watch
from pipelines.evaluation import drift

LIMITS = Watch().limits()


def rows(count: int, seed: int, **more: list) -> pa.Table:
    """Rows of three to six pieces of 50, of which the first ones are the most frequent."""
    generator = np.random.default_rng(seed)
    pieces = [sorted(generator.geometric(0.1, generator.integers(3, 7)) % 50) for _ in range(count)]
    columns = {"pieces": pieces, "unknown_pieces": [0] * count, **more}
    return pa.table([pa.array(columns.get(f.name, [None] * count), f.type) for f in drift.SCHEMA], schema=drift.SCHEMA)


def shifts_between(profile: pa.Table, window: pa.Table) -> dict[str, drift.Shift]:
    return {shift.statistic: shift for shift in drift.shifts(profile, window, LIMITS)}


def test_distances_by_hand() -> None:
    """Half of it in common: JSD = H(1/4, 1/2, 1/4) - 1 = 0.5 bits; the cumulated shares are 0.5 apart."""
    first, second = np.array([[2.0, 2, 0]]), np.array([[0.0, 3, 3]])
    assert drift.divergence(first, second) == pytest.approx([0.5])
    assert drift.largest_gap(first, second) == pytest.approx([0.5])
    assert drift.difference_of_shares(first[:, :2], second[:, :2]) == pytest.approx([0.5])
    uneven = np.array([[1.0, 3]])
    mean = (0.25 + 0.5) / 2
    entropy = [-sum(p * math.log2(p) for p in (share, 1 - share)) for share in (mean, 0.25, 0.5)]
    assert drift.divergence(uneven, np.array([[2.0, 2]])) == pytest.approx([entropy[0] - (entropy[1] + entropy[2]) / 2])


def test_rows_of_the_same_kind_have_not_drifted() -> None:
    shifts = shifts_between(rows(400, 1), rows(100, 2))
    assert set(shifts) == {"unknown_pieces", "length", "vocabulary"}, "no words, no answers"
    assert not any(shift.drifted for shift in shifts.values())
    assert shifts["vocabulary"].value > 0


def test_chance_gives_as_much_as_the_library_says() -> None:
    """Of two samples of the same rows the gap exceeds its 99th percentile in about one of 100 (Kolmogorov, Smirnov)."""
    from scipy.stats import ks_2samp

    reference, shifted = np.arange(0, 1000, 10.0), np.arange(3, 1003, 10.0)
    profile = rows(100, 1, value=list(reference))
    window = rows(100, 2, value=list(shifted))
    shift = shifts_between(profile, window)["values"]
    points = np.linspace(0, 0.5, 501)
    exact = next(p for p in points if ks_2samp(reference, reference + p * 1000, method="exact").pvalue < 0.01)
    assert shift.by_chance == pytest.approx(exact, abs=0.05)


def test_another_language_other_labels_and_longer_texts_show() -> None:
    usual = rows(300, 1, label=["a", "b", "c"] * 100, words=[5] * 300, unknown_words=[0] * 300)
    other = rows(60, 2, label=["a"] * 60, words=[5] * 60, unknown_words=[4] * 60)
    pieces = pa.array([[40, 41, 42] * 6] * 60, pa.list_(pa.uint32()))
    other = other.set_column(0, "pieces", pieces).set_column(1, "unknown_pieces", pa.array([9] * 60))
    shifts = shifts_between(usual, other)
    assert {name for name, shift in shifts.items() if shift.drifted} == {
        "unknown_pieces",
        "unknown_words",
        "length",
        "vocabulary",
        "labels",
    }
    assert shifts["unknown_pieces"].value == pytest.approx(0.5)
    assert shifts["unknown_words"].value == pytest.approx(0.8)


def test_few_rows_show_less_than_many() -> None:
    usual = rows(300, 1, label=["a", "b", "c"] * 100)
    few = shifts_between(usual, rows(3, 2, label=["a", "a", "b"]))["labels"]
    many = shifts_between(usual, rows(300, 3, label=["a", "a", "b"] * 100))["labels"]
    assert few.value == pytest.approx(many.value)
    assert many.drifted
    assert not few.drifted


def test_a_window_without_rows_says_nothing() -> None:
    assert drift.shifts(rows(10, 1), rows(0, 1), LIMITS) == []


@pytest.mark.parametrize(
    ("drifted", "alarm"),
    [
        ([], False),
        ([True], False),
        ([True, True], True),
        ([True, False, True], True),
        ([True, True, False], False),
        ([True, True, False, False, True], False),
    ],
)
def test_two_of_the_last_three_the_newest_among_them(drifted: list[bool], alarm: bool) -> None:
    assert drift.alarm(drifted, least=2, of=3) == alarm


@given(st.lists(st.booleans()), st.integers(1, 5), st.integers(0, 4))
def test_more_drift_never_ends_an_alarm(drifted: list[bool], least: int, more: int) -> None:
    before = drift.alarm(drifted, least, least + more)
    assert drift.alarm([True] * len(drifted), least, least + more) >= before
