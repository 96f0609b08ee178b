"""The verdicts of the gates on a model before it is registered: would it be champion in its teacher's place?"""

from collections.abc import Mapping
from pathlib import Path

from pipelines.core.errors import InputError
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.evaluation import gates
from pipelines.evaluation.significance import OfRows
from pipelines.graph import baselines_to_beat
from pipelines.measurement import gate_measurements
from pipelines.search.chains import Tried


def judge(
    candidate: Tried, folder: Path, teacher: gates.Measured, scored: Evaluate, rules: Mapping[str, Promote]
) -> tuple[bool, list[str]]:
    """Return whether no gate refuses the chain's model, and what the gates report, a line each.

    A gate that fails on its own rules refuses nothing, as the search has taken hours: its error is a line, and the
    gate decides after the registration.

    Args:
        folder: the chain's model.
        rules: the promote entries of the teacher's run, by name.
    """
    accepted, lines = True, list[str]()
    for name, rule in rules.items():
        if rule.gate == "off":
            lines.append(f"the gate of {name} is off")
            continue
        try:
            passed, report = _verdict(name, rule, candidate, folder, teacher, scored)
        except InputError as error:
            lines.append(f"the gate of {name} could not judge {' + '.join(candidate.chain)}: {error}")
            continue
        accepted, lines = accepted and passed, [*lines, *report]
    return accepted, lines


def _verdict(
    name: str, rule: Promote, candidate: Tried, folder: Path, teacher: gates.Measured, scored: Evaluate
) -> tuple[bool, list[str]]:
    """Return whether one gate lets the model pass, and its report.

    The model is not a version yet, so nobody can have approved it; the gate asks for approval after its registration.
    """
    challenger = gate_measurements.measure(folder, scored, False)
    baselines, unchecked = _baseline_scores(name, rule, scored)
    without: dict[str, bool | None] = {"approval": False}
    if rule.max_latency_ratio and candidate.latency_share is None:
        without["max_latency_ratio"] = None
        unchecked.append(f"promote.{name}.max_latency_ratio was not checked: the latency was not measured")
    if rule.max_changed is not None:
        unchecked.append(f"promote.{name}.max_changed was not checked: only registered versions answer stored requests")
    decision = gates.decide(
        challenger, teacher, rule.model_copy(update=without), candidate.latency_share, baselines=baselines
    )
    word = "accepts" if decision.passed else "refuses"
    report = [f"the gate of {name} {word} {' + '.join(candidate.chain)} as champion in the teacher's place:"]
    report += [str(finding) for finding in decision.findings if decision.passed or not finding.passed]
    report += unchecked
    if rule.gate == "dry_run":
        report.append(f"promote.{name}.gate is dry_run, so it stops nothing")
    elif rule.approval and decision.passed:
        report.append(f"promote.{name}.approval: a person has to approve the version when it is registered")
    return decision.passed or rule.gate == "dry_run", report


def _baseline_scores(name: str, rule: Promote, scored: Evaluate) -> tuple[dict[str, OfRows], list[str]]:
    """The scores of the baselines to beat, by name; and a line for each that has no predictions of these rows."""
    scores: dict[str, OfRows] = {}
    unchecked = []
    for baseline in baselines_to_beat.names(name, scored, rule):
        try:
            scores[baseline] = gate_measurements.baseline(baseline, scored)
        except InputError as error:
            unchecked.append(f"promote.{name}.beats was not checked: {error}")
    return scores, unchecked
