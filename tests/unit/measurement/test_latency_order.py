"""Two models are told apart by rounds in turn, and two equal ones are not."""

from itertools import count, repeat
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from pipelines.core import schema, tables
from pipelines.measurement import latency_order
from tests.support import tiny


def test_a_winner_of_every_round_is_found_soon() -> None:
    assert latency_order.decide(repeat(1.2)) == latency_order.Order(1.2, latency_order.LEAST_ROUNDS, True)
    assert latency_order.decide(repeat(0.8)) == latency_order.Order(0.8, latency_order.LEAST_ROUNDS, True)


def test_rounds_that_go_both_ways_decide_nothing() -> None:
    order = latency_order.decide(0.9 if number % 2 else 1.1 for number in count())
    assert (order.rounds, order.decided) == (latency_order.MOST_ROUNDS, False)
    assert order.ratio == pytest.approx(1.0)


def test_the_time_may_be_spent_before_the_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = count(step=latency_order.MOST_SECONDS / 2)
    monkeypatch.setattr(latency_order.time, "monotonic", lambda: next(clock))
    assert latency_order.decide(repeat(1.2)) == latency_order.Order(1.2, 3, False)


def test_equal_models_are_told_apart_in_few_searches() -> None:
    draw, searches = np.random.default_rng(1), 2000
    wrong = sum(
        latency_order.decide(draw.lognormal(0, 0.2, latency_order.MOST_ROUNDS)).decided for _ in range(searches)
    )
    assert 0.012 < wrong / searches < 0.035  # 0.0227 exactly
    right = sum(
        latency_order.decide(draw.lognormal(0.2, 0.2, latency_order.MOST_ROUNDS)).decided for _ in range(searches)
    )
    assert 0.83 < right / searches < 0.89  # one is faster in 84% of the rounds: 0.8625 exactly


@pytest.mark.slow
def test_the_smaller_of_two_models_is_faster(checkout: Path) -> None:
    rows = pa.table({"id": [str(i) for i in range(32)], "text": tiny.TEXTS * 2, "label": ["film"] * 32})
    rows = rows.cast(schema.ROWS["single"])
    tables.write(checkout / "test.parquet", rows.to_batches(), rows.schema)
    deep, flat = tiny.classifier(checkout / "deep", layers=40), tiny.classifier(checkout / "flat", layers=1)
    order = latency_order.compare(deep, flat, checkout / "test.parquet")
    assert order.decided
    assert order.ratio > 1.5
