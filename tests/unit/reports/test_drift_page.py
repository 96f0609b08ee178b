"""The drift page: a window with too few rows for a limit is not the same as a window without drift."""

from typing import Any

import pytest

from pipelines.reports import drift_page


def shift(value: float, by_chance: float, limit: float = 0.1) -> dict[str, Any]:
    numbers = {"value": value, "by_chance": by_chance, "limit": limit, "drifted": value > max(by_chance, limit)}
    return {"window": "2026-11-01", "statistic": "vocabulary", "rows": 90, **numbers}


@pytest.mark.parametrize(
    ("value", "by_chance", "says"),
    [(0.32, 0.33, "too few rows"), (0.05, 0.33, "too few rows"), (0.5, 0.33, "drifted"), (0.05, 0.06, "")],
)
def test_a_statistic_whose_limit_lies_below_chance_has_too_few_rows(value: float, by_chance: float, says: str) -> None:
    line = shift(value, by_chance)
    assert drift_page.too_few(line) == (says == "too few rows")
    page = drift_page.html("nightly", {"2026-11-01": [line]}, "1 of the last 1 windows", says == "drifted")
    assert f"<td>{says}</td>" in page
