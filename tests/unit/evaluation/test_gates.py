"""The gate's rules, each on both of its sides."""

from typing import Any

import numpy as np
import pytest

from pipelines.core.errors import InputError, UsageError
from pipelines.entries.promote import Promote
from pipelines.evaluation import significance
from pipelines.evaluation.gates import Decision, Measured, Replay, decide, with_replay, without_champion

ROWS = 400


def measured(right: int | list[int], rows: int = ROWS, **more: Any) -> Measured:
    """A version that is right on the first `right` rows, or on the rows with these numbers."""
    hits = np.zeros(rows, bool)
    hits[range(right) if isinstance(right, int) else right] = True
    facts = {"p95_ms": 2.0, "size_bytes": 5_000_000} | more
    return Measured("accuracy", rows, lambda chosen: float(hits[chosen].mean()), hits.tolist(), **facts)


def decided(
    challenger: Measured, champion: Measured | None = None, latency_ratio: float | None = None, **rules: Any
) -> Decision:
    decision = decide(challenger, champion, Promote(run="r", **rules), latency_ratio)
    assert decision.passed == all(reason.startswith("passed: ") for reason in decision.reasons)
    return decision


@pytest.mark.parametrize(
    ("challenger", "rules", "passed"),
    [
        (measured(200), {"at_least": 0.5}, True),
        (measured(199), {"at_least": 0.5}, False),
        (measured(9, classes={"smax": 0.5}), {"classes": {"smax": 0.5}}, True),
        (measured(9, classes={"smax": 0.4}), {"classes": {"smax": 0.5}}, False),
        (measured(9, slices={"kanji": 0.5}), {"slices": {"kanji": 0.5}}, True),
        (measured(9, slices={"kanji": 0.4}), {"slices": {"kanji": 0.5}}, False),
        (measured(9), {"max_size_mb": 5.0}, True),
        (measured(9), {"max_size_mb": 4.9}, False),
        (measured(9), {"max_p95_ms": 2.0}, True),
        (measured(9), {"max_p95_ms": 1.9}, False),
        (measured(9, approved=True), {"approval": True}, True),
        (measured(9), {"approval": True}, False),
        (measured(9, behaviour=[{"name": "n", "rows": 4, "passed": 1.0, "at_least": 0.75, "ok": True}]), {}, True),
        (measured(9, behaviour=[{"name": "n", "rows": 4, "passed": 0.5, "at_least": 0.75, "ok": False}]), {}, False),
    ],
)
def test_the_first_is_held_against_the_rules_alone(challenger: Measured, rules: dict[str, Any], passed: bool) -> None:
    assert decided(challenger, **rules).passed == passed


@pytest.mark.parametrize(("right", "passed"), [(201, True), (200, False), (199, False)])
def test_a_baseline_must_be_beaten_and_not_met(right: int, passed: bool) -> None:
    others = {"svm": measured(200).score, "rare": measured(40).score}
    decision = decide(measured(right), measured(right), Promote(run="r"), baselines=others)
    assert {finding.rule: finding.passed for finding in decision.findings if finding.rule.startswith("beats")} == {
        "beats.svm": passed,
        "beats.rare": True,
    }
    assert decision.passed == passed


@pytest.mark.parametrize(
    ("challenger", "verdict"),
    [
        (measured(300), "which excludes 0"),  # 100 rows more of 400
        (measured(201), "which includes 0"),  # one row more
        (measured([*range(100), *range(200, 300)]), "which includes 0"),  # as many, of other rows
        (measured(100), "which excludes 0"),
    ],
)
def test_a_chance_lead_over_a_baseline_is_reported(challenger: Measured, verdict: str) -> None:
    decision = decide(challenger, None, Promote(run="r"), baselines={"svm": measured(200).score})
    (finding,) = [finding for finding in decision.findings if finding.rule == "beats.svm"]
    low, high = significance.interval(lambda rows: challenger.score(rows) - measured(200).score(rows), ROWS)
    assert finding.passed == (challenger.value > 0.5), "the scores alone decide whether it passes"
    assert finding.sentence == (
        f"accuracy {challenger.value:.4f}, above the 0.5000 of the baseline svm is required; the difference "
        f"{challenger.value - 0.5:+.4f} has the 95% interval {low:+.4f} to {high:+.4f}, {verdict}"
    )


@pytest.mark.parametrize(
    ("rules", "passed"),
    [
        ({"least_agreement": 0.75}, True),
        ({"least_agreement": 0.75, "tolerance": 0.0}, False),
        ({"at_tie": "keep", "tolerance": 1.0}, False),
        ({"at_tie": "keep"}, True),
    ],
)
def test_numbers_agree_within_the_tolerance(rules: dict[str, Any], passed: bool) -> None:
    def numbers(*values: float) -> Measured:
        return Measured("pearson", 4, lambda chosen: 0.9, [*values], p95_ms=2.0, size_bytes=5)

    assert decided(numbers(1.0, 2.0, 3.0, 4.0), numbers(1.05, 2.09, 2.95, 3.5), **rules).passed == passed


@pytest.mark.parametrize(
    ("challenger", "champion", "rules", "passed"),
    [
        (measured(300), measured(300), {"may_lose": 0.0}, True),  # the same answers: no draw differs
        (measured(300), measured(300), {"at_tie": "keep"}, False),
        (measured(301), measured(300), {"at_tie": "keep"}, True),
        (measured(396), measured(400), {"may_lose": 0.02}, True),
        (measured(390), measured(400), {"may_lose": 0.02}, False),  # it lost more
        (measured(395), measured(400), {"may_lose": 0.02, "confidence": 0.99}, False),  # that may be chance
        (measured(395), measured(400), {"may_lose": 0.02, "confidence": 0.5}, True),
        (measured(300), measured(300), {"least_agreement": 1.0}, True),
        (measured(299), measured(300), {"least_agreement": 1.0}, False),
        (measured(9), measured(9), {"max_latency_ratio": 1.5, "latency_ratio": 1.5}, True),
        (measured(9), measured(9), {"max_latency_ratio": 1.5, "latency_ratio": 1.55}, False),
    ],
)
def test_a_later_one_is_held_against_the_champion_too(
    challenger: Measured, champion: Measured, rules: dict[str, Any], passed: bool
) -> None:
    assert decided(challenger, champion, **rules).passed == passed


@pytest.mark.parametrize("right", [100, 300])
def test_where_the_champion_was_deleted_the_rules_about_itself_decide_and_it_is_said(right: int) -> None:
    alone = decided(measured(right), at_least=0.5)
    decision = without_champion(alone, 7)
    assert decision.passed == alone.passed == (right == 300)
    assert decision.reasons[-1] == (
        "passed: version 7, the champion, was deleted: no rule compares the challenger with it"
    )


def test_few_rows_cannot_show_what_many_can() -> None:
    """As good in the mean, and each wrong where the other is right: 1 of 10 rows differs."""
    for rows, passed in ((100, False), (4000, True)):
        challenger, champion = (measured([i for i in range(rows) if i % 20 != wrong], rows) for wrong in (0, 10))
        assert challenger.value == champion.value
        assert decided(challenger, champion, may_lose=0.03).passed == passed


def test_a_worse_challenger_is_refused_at_the_rate_of_the_confidence() -> None:
    """Challengers that really lose just more than may be lost: about 5 of 100 pass a gate that is 95% sure."""
    draw, passed = np.random.default_rng(1), 0
    for _ in range(200):
        champion = draw.random(ROWS) < 0.9
        lost = champion & (draw.random(ROWS) < 0.0666)  # 0.06 of all rows
        verdict = decided(
            measured(np.flatnonzero(champion & ~lost).tolist()),
            measured(np.flatnonzero(champion).tolist()),
            may_lose=0.06,
        )
        passed += verdict.passed
    assert 1 <= passed <= 24  # 3 and more standard deviations around 10


def test_the_reason_has_the_numbers() -> None:
    decision = decided(measured(300), measured(380), at_least=0.7, may_lose=0.05)
    assert decision.reasons[0] == "passed: accuracy 0.7500, at least 0.7000 is required"
    assert decision.reasons[1].startswith(
        "refused: accuracy 0.7500 against the champion's 0.9500; 95% sure, the differ"
    )
    finding = decision.verdict()["findings"][1]
    assert (finding["rule"], finding["asked"], finding["passed"]) == ("may_lose", -0.05, False)
    assert -0.25 < finding["found"] < -0.2


@pytest.mark.parametrize(
    ("rows", "may_lose", "sure"),
    [(8, 0.02, False), (148, 0.02, False), (149, 0.02, True), (149, 0.01, False), (400, 0.0, False), (1, 1.0, True)],
)
def test_equal_answers_pass_and_the_sentence_has_what_few_rows_may_hide(rows: int, may_lose: float, sure: bool) -> None:
    decision = decided(measured(rows, rows), measured(rows, rows), may_lose=may_lose)
    assert decision.passed
    hidden = 1 - 0.05 ** (1 / rows)
    assert decision.reasons[1] == (
        f"passed: accuracy 1.0000 against the champion's 1.0000; {'95% sure' if sure else 'by a bootstrap'}, the "
        f"difference is at least +0.0000, {-may_lose:+.4f} is required"
        + (
            ""
            if sure
            else f"; {rows} rows are too few to be 95% sure: equal answers on all of them may hide a loss of "
            f"{hidden:.4f}"
        )
    )


@pytest.mark.parametrize(("rows", "loss", "may_lose"), [(20, 0.06, 0.01), (100, 0.02, 0.01), (300, 0.01, 0.01)])
def test_the_gate_is_rarely_sure_of_a_worse_challenger(rows: int, loss: float, may_lose: float) -> None:
    """Where the bootstrap alone passes, the sentence is not sure: a loss that no row shows is in no draw."""
    draw, passed, sure = np.random.default_rng(1), 0, 0
    for _ in range(100):
        kept = measured(np.flatnonzero(draw.random(rows) >= loss).tolist(), rows)
        reason = decided(kept, measured(rows, rows), may_lose=may_lose).reasons[1]
        passed += reason.startswith("passed")
        sure += reason.startswith("passed") and "95% sure, " in reason
    assert passed >= 10
    assert sure <= 10  # 5 are expected at most


def test_an_impossible_comparison_is_reported() -> None:
    for other in (measured(9, rows=8 + ROWS, digest="a"), measured(9, digest="b")):
        with pytest.raises(InputError, match="answered different rows: a run replaced them; promote again"):
            decided(measured(9, digest="a"), other)
    assert decided(measured(9, digest="a"), measured(9, digest="a")).passed
    with pytest.raises(UsageError, match="no label 'smaxx' \\(did you mean 'smax'\\?\\); there are: smax"):
        decided(measured(9, classes={"smax": 0.5}), classes={"smaxx": 0.5})


@pytest.mark.parametrize(
    ("changed", "most", "passed"),
    [(30, None, True), (30, 0.05, True), (35, 0.05, True), (45, 0.05, False), (60, 0.05, False), (0, 0.0, False)],
)
def test_the_upper_end_of_what_a_replay_finds_decides(changed: int, most: float | None, passed: bool) -> None:
    replay = Replay(1000, changed, 1000.0, "1,000 requested rows of the last 7 days, 1,000 of them different")
    decision = with_replay(Decision([]), replay, most)
    (finding,) = decision.findings
    assert (decision.passed, finding.rule, finding.passed) == (passed, "max_changed", passed)
    assert f"{changed / 1000:.2%} of the answers would change, 95% interval " in finding.sentence
    numbers = decision.verdict()["replay"]
    assert (numbers["answers"], numbers["changed"]) == (1000, changed)
    assert finding.found == numbers["interval"][1]


def test_a_replay_without_rows_refuses_only_by_the_rule() -> None:
    nothing = Replay(0, 0, 0.0, "no request of the last 7 days can be replayed")
    assert with_replay(Decision([]), nothing, None).passed
    refused = with_replay(Decision([]), nothing, 0.05)
    assert not refused.passed
    assert refused.reasons == [
        "refused: replay: no request of the last 7 days can be replayed; "
        "at most 5.00% may change, by the interval's upper end"
    ]
    assert refused.verdict()["replay"] == {"answers": 0}
