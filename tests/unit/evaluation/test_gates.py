"""The gate's rules, each on both of its sides."""

import pytest

from pipelines.entries.promote import Promote
from pipelines.evaluation.gates import decide


def record(accuracy: float, latency: float = 1.0) -> dict:
    return {
        "task": "t",
        "rows": 9,
        "metric": "accuracy",
        "metrics": {"accuracy": accuracy},
        "latency_ms": {"p50": latency},
    }


def behaving(passed: float) -> dict:
    check = {"name": "names", "rows": 4, "passed": passed, "at_least": 0.75, "ok": passed >= 0.75}
    return record(0.8) | {"behaviour": [check]}


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
        (record(0.8, 3.0), record(0.8, 2.0), {"max_latency_ratio": 1.5}, True),
        (behaving(1.0), None, {}, True),
        (behaving(0.5), None, {}, False),
    ],
)
def test_a_rule_has_two_sides(challenger: dict, champion: dict | None, rules: dict, passed: bool) -> None:
    decision = decide(challenger, champion, Promote(run="r", **rules))
    assert decision.passed == passed
    assert any(reason.startswith("refused: ") for reason in decision.reasons) != passed


def test_the_reason_has_the_numbers() -> None:
    reasons = decide(behaving(0.5), record(0.9), Promote(run="r", at_least=0.7, may_lose=0.05)).reasons
    assert reasons == [
        "passed: accuracy 0.8000, at least 0.7000 is asked",
        "refused: behaviour names: 0.5000 of 4 rows, at least 0.7500 is asked",
        "refused: accuracy 0.8000 against the champion's 0.9000, 0.0500 may be lost",
    ]


def test_other_rows_are_no_comparison() -> None:
    with pytest.raises(ValueError, match="same rows"):
        decide(record(0.8), record(0.8) | {"rows": 8}, Promote(run="r"))
