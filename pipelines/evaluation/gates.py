"""Whether a challenger may take the champion's place: rules, numbers, and a reason for each."""

from dataclasses import dataclass
from typing import Any

from pipelines.entries.promote import Promote

Metrics = dict[str, Any]  # what evaluate writes to artifacts/metrics/<run>.json


@dataclass(frozen=True)
class Decision:
    passed: bool
    reasons: list[str]  # one sentence a rule, each with its numbers


def decide(challenger: Metrics, champion: Metrics | None, rules: Promote) -> Decision:
    """Hold `challenger` against `rules` and, where there is one, against `champion` on the same rows."""
    name = challenger["metric"]
    value = challenger["metrics"][name]
    checks = [(value >= rules.at_least, f"{name} {value:.4f}, at least {rules.at_least:.4f} is asked")]
    for check in challenger.get("behaviour", []):
        found = f"{check['passed']:.4f} of {check['rows']} rows, at least {check['at_least']:.4f} is asked"
        checks.append((check["ok"], f"behaviour {check['name']}: {found}"))
    if champion:
        if champion["rows"] != challenger["rows"] or champion["task"] != challenger["task"]:
            raise ValueError("challenger and champion must be scored on the same rows")
        best = champion["metrics"][name]
        loss = best - value
        checks.append(
            (
                loss <= rules.may_lose + 1e-12,
                f"{name} {value:.4f} against the champion's {best:.4f}, {rules.may_lose:.4f} may be lost",
            )
        )
        if rules.max_latency_ratio:
            ratio = challenger["latency_ms"]["p50"] / champion["latency_ms"]["p50"]
            asked = f"at most {rules.max_latency_ratio:.2f} times is asked"
            checks.append((ratio <= rules.max_latency_ratio, f"latency {ratio:.2f} times the champion's, {asked}"))
    reasons = [f"{'passed' if passed else 'refused'}: {sentence}" for passed, sentence in checks]
    return Decision(all(passed for passed, _ in checks), reasons)
