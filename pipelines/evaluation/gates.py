"""The decision whether a challenger replaces the champion: one finding per rule, with its numbers and a sentence."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from types import MappingProxyType
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError

from pipelines.core.errors import InputError, UsageError, choices
from pipelines.entries.promote import Promote
from pipelines.evaluation import agreement, significance
from pipelines.evaluation.significance import OfRows

EXACT = 1e-12  # the largest rounding error of a difference


@dataclass(frozen=True)
class Measured:
    """The measurements of one version on the gate's rows.

    Attributes:
        score: the task's metric, as a function of row numbers.
        answers: the version's answer for each row, (N,), to compare with another version's.
        classes: F1 of each label; slices: score of each.
        digest: digest of the file with the rows; only versions that answered the same rows can be compared.
    """

    metric: str
    rows: int
    score: OfRows
    answers: list[Any]
    p95_ms: float
    size_bytes: int
    classes: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, float] = field(default_factory=dict)
    behaviour: list[dict[str, Any]] = field(default_factory=list)
    approved: bool = False
    approver: str = ""
    digest: str = ""

    @property
    def value(self) -> float:
        return self.score(np.arange(self.rows))


@dataclass(frozen=True)
class Finding:
    """The result of one rule: the measured value, the required value, and whether the rule passed."""

    rule: str
    found: float
    asked: float
    passed: bool
    sentence: str

    def __str__(self) -> str:
        return f"{'passed' if self.passed else 'refused'}: {self.sentence}"


_FINDING = TypeAdapter(Finding)


def findings(verdict: Mapping[str, Any]) -> Iterator[Finding]:
    """The findings of a stored verdict. Invalid items, which another program may have written, are skipped."""
    recorded = verdict.get("findings")
    for finding in recorded if isinstance(recorded, list) else ():
        with suppress(ValidationError):
            yield _FINDING.validate_python(finding)


@dataclass(frozen=True)
class Replay:
    """The comparison of two versions on stored requests.

    Attributes:
        answers: the number that was compared; a row that was sent twice counts twice.
        changed: the number of those that differ.
        effective: the independent rows that `answers` are worth, as rows repeat.
        sentence: the numbers of answers, rows and days in words, with what could not be replayed.
        against: the number of the champion.
        tolerance: the difference of two numbers that changes no answer.
    """

    answers: int
    changed: int
    effective: float
    sentence: str
    against: int = 0
    tolerance: float = 0.0

    @property
    def share(self) -> float:
        return self.changed / self.answers

    @property
    def interval(self) -> significance.Interval:
        return significance.share_interval(self.share, self.effective)

    def numbers(self) -> dict[str, Any]:
        """The comparison as JSON."""
        if not self.answers:
            return {"answers": 0}
        return {
            "answers": self.answers, "changed": self.changed, "share": self.share, "interval": list(self.interval),
            "against": self.against, "tolerance": self.tolerance,
        }  # fmt: skip


@dataclass(frozen=True)
class Decision:
    findings: list[Finding]
    replay: Replay | None = None

    @property
    def passed(self) -> bool:
        return all(finding.passed for finding in self.findings)

    @property
    def reasons(self) -> list[str]:
        return list(map(str, self.findings))

    def verdict(self) -> dict[str, Any]:
        """The decision as JSON."""
        verdict = {"passed": self.passed, "findings": [asdict(finding) for finding in self.findings]}
        return verdict | ({"replay": self.replay.numbers()} if self.replay else {})


def decide(
    challenger: Measured,
    champion: Measured | None,
    rules: Promote,
    latency_ratio: float | None = None,
    baselines: Mapping[str, OfRows] = MappingProxyType({}),
) -> Decision:
    """Check `challenger` against `rules` and, if there is a champion, compare both on the same rows.

    Without a champion, only the rules about the challenger itself decide.

    Args:
        baselines: the scores of the baselines to beat, on the same rows.
        latency_ratio: its latency divided by the champion's, measured in alternation; `max_latency_ratio` requires it.

    Raises:
        InputError: the rows were replaced between the two measurements.
    """
    findings = [*_alone(challenger, rules), *_above(challenger, baselines)]
    if champion:
        if (champion.rows, champion.digest) != (challenger.rows, challenger.digest):
            raise InputError("challenger and champion answered different rows: a run replaced them; promote again")
        findings += _against(challenger, champion, rules, latency_ratio)
    return Decision(findings)


def without_champion(decision: Decision, deleted: int) -> Decision:
    """The decision on a challenger whose champion was deleted: only the rules about the challenger itself decide."""
    sentence = f"version {deleted}, the champion, was deleted: no rule compares the challenger with it"
    return replace(decision, findings=[*decision.findings, Finding("champion", 0, 0, True, sentence)])


def _alone(challenger: Measured, rules: Promote) -> Iterator[Finding]:
    yield _least("at_least", challenger.metric, challenger.value, rules.at_least)
    for label, least in rules.classes.items():
        yield _least(f"classes.{label}", f"F1 of {label}", _of("label", label, challenger.classes), least)
    for name, least in rules.slices.items():
        yield _least(f"slices.{name}", f"{challenger.metric} of {name}", _of("slice", name, challenger.slices), least)
    for check in challenger.behaviour:
        name, least = f"behaviour {check['name']}", check["at_least"]
        sentence = f"{name}: {check['passed']:.4f} of {check['rows']} rows, at least {least:.4f} is required"
        yield Finding(name, check["passed"], least, check["ok"], sentence)
    if rules.max_size_mb:
        yield _most("max_size_mb", "megabytes", challenger.size_bytes / 1e6, rules.max_size_mb)
    if rules.max_p95_ms:
        yield _most("max_p95_ms", "p95 in milliseconds", challenger.p95_ms, rules.max_p95_ms)
    if rules.approval:
        by = f"approved by {challenger.approver}" if challenger.approver else "a person has approved it"
        sentence = by if challenger.approved else "nobody has approved the version; `bertline approve` does"
        yield Finding("approval", challenger.approved, 1, challenger.approved, sentence)


def _above(challenger: Measured, baselines: Mapping[str, OfRows]) -> Iterator[Finding]:
    """The comparison with each baseline. The scores decide; the interval of their difference is only reported."""
    value = challenger.value
    for name, baseline in baselines.items():
        score = baseline(np.arange(challenger.rows))
        low, high = significance.interval(_difference(challenger.score, baseline), challenger.rows)
        verdict = "which excludes 0" if low > 0 or high < 0 else "which includes 0"
        sentence = (
            f"{challenger.metric} {value:.4f}, above the {score:.4f} of the baseline {name} is required; "
            f"the difference {value - score:+.4f} has the 95% interval {low:+.4f} to {high:+.4f}, {verdict}"
        )
        yield Finding(f"beats.{name}", value, score, value > score, sentence)


def _against(
    challenger: Measured, champion: Measured, rules: Promote, latency_ratio: float | None
) -> Iterator[Finding]:
    yield _loss(challenger, champion, rules)
    pairs = zip(challenger.answers, champion.answers, strict=True)
    same = float(np.mean([_alike(ours, theirs, rules.tolerance) for ours, theirs in pairs]))
    if rules.least_agreement:
        yield _least("least_agreement", "agreement with the champion", same, rules.least_agreement)
    if rules.at_tie == "keep" and same == 1:
        yield Finding("at_tie", 1, 1, False, "its predictions equal the champion's on every row (at_tie: keep)")
    if rules.max_latency_ratio:
        assert latency_ratio is not None, "the rule max_latency_ratio needs both measured in alternation"
        sentence = "latency as a multiple of the champion's, measured in alternation,"
        yield _most("max_latency_ratio", sentence, latency_ratio, rules.max_latency_ratio)


def _alike(ours: Any, theirs: Any, tolerance: float) -> bool:
    """Return whether two answers are equal, or numbers that differ by no more than the entry's `tolerance`."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return abs(ours - theirs) <= tolerance
    return bool(ours == theirs)


def with_replay(decision: Decision, replay: Replay, most: float | None) -> Decision:
    """The decision with what the replay of stored requests found; the rule `max_changed` is about it if it is set.

    The upper end of the interval decides, so that a few requests do not pass the rule by chance.
    """
    sentence, high = f"replay: {replay.sentence}", 1.0
    if replay.answers:
        low, high = replay.interval
        sentence += f"; {replay.share:.2%} of the answers would change, 95% interval {low:.2%} to {high:.2%}"
    if most is not None:
        sentence += f"; at most {most:.2%} may change, by the interval's upper end"
    limit = 1.0 if most is None else most
    passed = most is None or (replay.answers > 0 and high <= limit)
    finding = Finding("max_changed", high, limit, passed, sentence)
    return replace(decision, findings=[*decision.findings, finding], replay=replay)


def most_lost(challenger: Measured, champion: Measured, confidence: float) -> float:
    """The upper bound, at this confidence, of how much lower than the champion the challenger scores on such rows."""
    return -_least_difference(challenger, champion, confidence)


def _least_difference(challenger: Measured, champion: Measured, confidence: float) -> float:
    return significance.lower_bound(_difference(challenger.score, champion.score), challenger.rows, confidence)


def _difference(first: OfRows, second: OfRows) -> OfRows:
    """The score `first` minus the score `second`, on the same rows."""
    return lambda rows: first(rows) - second(rows)


def _loss(challenger: Measured, champion: Measured, rules: Promote) -> Finding:
    """The test of non-inferiority: the loss is at most `may_lose`, at the given `confidence`, by a bootstrap.

    No draw has a loss that no row has. So the sentence is sure only if what equal answers may hide fits in as well.
    """
    bound = _least_difference(challenger, champion, rules.confidence)
    passed = bound >= -rules.may_lose - EXACT
    hidden = agreement.upper_bound(0, challenger.rows, rules.confidence)
    too_few = passed and bound - hidden < -rules.may_lose - EXACT
    sentence = (
        f"{challenger.metric} {challenger.value:.4f} against the champion's {champion.value:.4f}; "
        f"{'by a bootstrap' if too_few else f'{rules.confidence:.0%} sure'}, "
        f"the difference is at least {bound:+.4f}, {-rules.may_lose:+.4f} is required"
    )
    if too_few:
        sentence += (
            f"; {challenger.rows:,} rows are too few to be {rules.confidence:.0%} sure: "
            f"equal answers on all of them may hide a loss of {hidden:.4f}"
        )
    return Finding("may_lose", bound, -rules.may_lose, passed, sentence)


def _of(what: str, name: str, values: Mapping[str, float]) -> float:
    if name not in values:
        raise UsageError(f"params.yaml: promote: {choices(what, name, values)}")
    return values[name]


def _least(rule: str, name: str, measured: float, limit: float) -> Finding:
    return Finding(rule, measured, limit, measured >= limit, f"{name} {measured:.4f}, at least {limit:.4f} is required")


def _most(rule: str, name: str, measured: float, limit: float) -> Finding:
    return Finding(rule, measured, limit, measured <= limit, f"{name} {measured:.4g}, at most {limit:.4g} is required")
