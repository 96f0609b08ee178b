"""The gate's rules, each on both of its sides."""

import pytest

from pipelines.core.entries import Promote
from pipelines.evaluation.gates import decide


def record(accuracy: float, latency: float = 1.0) -> dict:
    return {
        "task": "t",
        "rows": 9,
        "metric": "accuracy",
        "metrics": {"accuracy": accuracy},
        "latency_ms": {"p50": latency},
    }


@pytest.mark.parametrize(
    ("challenger", "champion", "rules", "passed"),
    [
        (record(0.5), None, {"at_least": 0.5}, True),
        (record(0.49), None, {"at_least": 0.5}, False),
        (record(0.8), record(0.8), {}, True),
        (record(0.79), record(0.8), {}, False),
        (record(0.79), record(0.8), {"may_lose": 0.01}, True),
        (record(0.78), record(0.8), {"may_lose": 0.01}, False),
        (record(0.8, 1.5), record(0.8), {"max_latency_ratio": 1.5}, True),
        (record(0.8, 1.6), record(0.8), {"max_latency_ratio": 1.5}, False),
    ],
)
def test_a_rule_has_two_sides(challenger: dict, champion: dict | None, rules: dict, passed: bool) -> None:
    decision = decide(challenger, champion, Promote(run="r", **rules))
    assert decision.passed == passed
    assert any(reason.startswith("refused: ") for reason in decision.reasons) != passed


def test_other_rows_are_no_comparison() -> None:
    with pytest.raises(ValueError, match="same rows"):
        decide(record(0.8), record(0.8) | {"rows": 8}, Promote(run="r"))
