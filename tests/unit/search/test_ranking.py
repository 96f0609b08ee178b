"""Which of several results is the fastest: rounds that overlap are not believed."""

from pathlib import Path

import pytest

from pipelines.measurement import latency_order
from pipelines.measurement.latency_order import Order
from pipelines.search import ranking
from pipelines.search.chains import Tried

# what three rounds told of two chains, of which nine told 0.45 and 0.28
SLOW = Tried(("slow",), 0.9, 0.0, 100, 0.1, 0.35, (0.17, 0.70), "onnx")
QUICK = Tried(("quick",), 0.9, 0.0, 200, 0.2, 0.43, (0.40, 0.46), "onnx")
LATE = Tried(("late",), 0.9, 0.0, 50, 0.05, 0.9, (0.8, 0.95), "onnx")


def fastest(monkeypatch: pytest.MonkeyPatch, order: Order, *ranked: Tried) -> tuple[Tried, list[str], int]:
    comparisons = []

    def compare(first: Path, second: Path, split_file: Path, threads: int) -> Order:
        comparisons.append((first, second))
        return order

    monkeypatch.setattr(latency_order, "compare", compare)
    return *ranking.fastest(ranked, lambda attempt: Path(attempt.chain[0]), Path("rows"), 1), len(comparisons)


def test_a_result_of_nine_rounds_overrules_one_of_three(monkeypatch: pytest.MonkeyPatch) -> None:
    first, sentences, comparisons = fastest(monkeypatch, Order(1.6, 9, True), SLOW, QUICK, LATE)
    assert first is QUICK
    assert sentences == ["quick is 1.60 times as fast as slow in 9 alternating rounds"]
    assert comparisons == 1, "late was never as fast as either"


def test_of_two_equally_fast_models_the_smaller_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    small = Tried(("small",), 0.9, 0.0, 10, 0.01, 0.44, (0.42, 0.5), "onnx")
    first, sentences, _ = fastest(monkeypatch, Order(0.98, 24, False), QUICK, small)
    assert first is small
    assert "24 alternating rounds, too close to decide: the smaller one is taken" in sentences[0]


def test_a_single_candidate_is_not_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fastest(monkeypatch, Order(1, 1, True), SLOW) == (SLOW, [], 0)
    assert fastest(monkeypatch, Order(1, 1, True), SLOW, LATE) == (SLOW, [], 0)
