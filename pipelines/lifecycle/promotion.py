"""Promotion: the challenger against the champion on the same rows, by the rules of params.yaml; and the way back."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from pipelines.core import params, resources
from pipelines.core.errors import InputError, UsageError, listed, one_line
from pipelines.core.progress import say
from pipelines.data import references
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.evaluation import gates
from pipelines.graph import baselines_to_beat, checking
from pipelines.inference.predictor import Predictor
from pipelines.lifecycle import approval, registry_refusals, request_replay, service_watch
from pipelines.lifecycle.service_watch import Service
from pipelines.measurement import gate_measurements
from pipelines.measurement.smoke_answers import SmokeAnswers
from pipelines.tracking import ledger, ledger_events, ledger_notes, registry, version_tags
from pipelines.tracking.ledger_events import State
from pipelines.tracking.registry_snapshot import CHALLENGER


@dataclass(frozen=True)
class Outcome:
    """The gate's decision, and the version that serves now.

    Attributes:
        promoted: whether the version that serves is the one that was to be champion; it may have been before.
        changed: whether it became champion just now.
        would: whether it would become champion, if it was only measured.
    """

    promoted: bool
    reasons: list[str]
    champion: registry.Version | None
    changed: bool = False
    would: bool = False


def measure(version: registry.Version, entry: Evaluate) -> gates.Measured:
    """Measure a registered version on the rows of an evaluate entry."""
    measured = gate_measurements.measure(registry.folder(version), entry, approval.is_approved(version))
    return replace(measured, approver=approval.approver(version))


def latency_ratio(challenger: registry.Version, champion: registry.Version, entry: Evaluate, threads: int) -> float:
    """The challenger's latency as a multiple of the champion's, measured in turn."""
    return gate_measurements.latency_ratio(registry.folder(challenger), registry.folder(champion), entry, threads)


@dataclass(frozen=True)
class Measurements:
    """The functions that measure versions; a flow gives its own, which show each measurement."""

    score: Callable[[registry.Version, Evaluate], gates.Measured] = measure
    latency: Callable[[registry.Version, registry.Version, Evaluate, int], float] = latency_ratio
    replay: Callable[[registry.Version, registry.Version, int, float], gates.Replay] = request_replay.compare


def promote(
    name: str, version: int | None, instead_of: int | None, reason: str, measurements: Measurements = Measurements(),
    service: Service | None = None, replay_days: int | None = None, dry: bool = False,
) -> Outcome:  # fmt: skip
    """Make the challenger of `name` its champion if it keeps promote.<name>'s rules; else say why not.

    The verdict is kept with the version, and with the event in the ledger.

    Args:
        version: another than the challenger.
        instead_of: the version that must be champion now.
        reason: why, for the ledger.
        measurements: the functions that measure versions.
        service: the HTTP service that is to be watched while it takes the new champion up.
        replay_days: of stored requests that both answer; by default only if there is the rule `max_changed`.
        dry: whether the challenger is only measured; the verdict is kept with it, and the champion stays.
    """
    registry_refusals.require_reason(reason)
    rules = params.entry("promote", name, Promote)
    entry = params.entry("evaluate", rules.run, Evaluate)
    challenger, champion, known = _versions(name, version, instead_of)
    if outcome := _at_once(challenger, champion, known, version):
        return outcome
    _require_possible(name, rules, entry)
    content = registry.content(challenger)  # before it is measured: what is entered is what was there then
    decision = _decide(challenger, champion, entry, rules, measurements)
    decision = _replayed(decision, challenger, champion, rules, measurements, replay_days)
    if known.champion and not champion:
        decision = gates.without_champion(decision, known.champion)
    verdict = {"gate": rules.gate, **decision.verdict()}
    if rules.gate != "off" or "verdict" not in challenger.tags:  # what was measured before stays with the version
        version_tags.describe(challenger, verdict)
    passes = decision.passed or rules.gate != "enforce"
    if dry or not passes:
        return Outcome(False, decision.reasons, champion, would=passes)
    why = {"off": "the gate is off", "dry_run": "the gate stops nothing"}.get(rules.gate, "it passed the gate")
    event = Change(name, known, "promote", challenger, reason or why, verdict, content)
    event.enter(service)
    return Outcome(True, decision.reasons, challenger, changed=True)


def _require_possible(name: str, rules: Promote, entry: Evaluate) -> None:
    """Raise UsageError, before anything is measured, if a rule is about a slice or a label that cannot be there."""
    if rules.gate != "off" and (wrong := [*references.of_gate(name, rules, entry)]):
        raise UsageError(f"{params.FILE}: {listed(wrong)}")


def unmeasured(name: str, version: int | None, instead_of: int | None) -> Outcome | None:
    """The outcome of `promote` with these arguments if it needs no measurement; None if it needs one.

    A command asks this first, and answers without Prefect, whose start takes seconds. Raises InputError as `promote`.
    """
    rules = params.entry("promote", name, Promote)
    params.entry("evaluate", rules.run, Evaluate)
    return _at_once(*_versions(name, version, instead_of), version)


def _versions(
    name: str, version: int | None, instead_of: int | None
) -> tuple[registry.Version, registry.Version | None, State]:
    """The challenger, the champion if there is one, and the ledger, which is settled."""
    challenger = registry.version(name, version) if version is not None else registry.get(name, CHALLENGER)
    known = ledger.read(name)
    ledger.settle(name, known)
    registry_refusals.require_instead_of(name, known, instead_of)
    return challenger, registry.find(name, known.champion) if known.champion else None, known


def _at_once(
    challenger: registry.Version, champion: registry.Version | None, known: State, version: int | None
) -> Outcome | None:
    """The outcome where nothing has to be measured: it is champion already, or was rolled back."""
    if champion and champion.version == challenger.version:
        return Outcome(True, ["nothing to do"], champion)
    if version is None and (sentence := registry_refusals.taken_back(challenger.name, challenger.version, known)):
        return Outcome(False, [sentence], champion)
    return None


@dataclass(frozen=True)
class Change:
    """An event that is to be entered in the ledger; `known` is the ledger's state that it was decided on."""

    name: str
    known: State
    action: ledger_events.Action
    target: registry.Version
    reason: str
    verdict: dict[str, Any] = field(default_factory=dict)
    content: dict[str, str] = field(default_factory=dict)

    def enter(self, service: Service | None) -> None:
        """Enter it. With a service, watch how it takes the target up, and note that in the ledger."""
        if not service:
            self._append()
            return
        with service_watch.ServiceProbe(service, self.target, example_rows(self.target)) as watch:
            event = self._append().entries[-1].event
            seen = watch.seen()
        say(seen["summary"])
        try:
            ledger_notes.add(self.name, event, seen)
        except InputError as error:  # the change itself is entered
            say(one_line(error))

    def _append(self) -> State:
        return ledger.append(
            self.name, self.known, self.action, self.target.version, self.reason, self.verdict, self.content
        )


def example_rows(version: registry.Version) -> list[dict[str, Any]]:
    """The rows that a version was registered with, or its one example where these are missing."""
    path = registry.smoke(version)
    return SmokeAnswers.read(path).rows if path else registry.example(version)


def _decide(
    challenger: registry.Version, champion: registry.Version | None, entry: Evaluate, rules: Promote,
    measurements: Measurements,
) -> gates.Decision:  # fmt: skip
    if rules.gate == "off":
        return gates.Decision([])
    scores = {
        name: gate_measurements.baseline(name, entry) for name in baselines_to_beat.names(challenger.name, entry, rules)
    }
    if not champion:
        return gates.decide(measurements.score(challenger, entry), None, rules, baselines=scores)
    threads = resources.read().threads
    ratio = measurements.latency(challenger, champion, entry, threads) if rules.max_latency_ratio else None
    return gates.decide(
        measurements.score(challenger, entry), measurements.score(champion, entry), rules, ratio, scores
    )


def _replayed(
    decision: gates.Decision, challenger: registry.Version, champion: registry.Version | None, rules: Promote,
    measurements: Measurements, days: int | None,
) -> gates.Decision:  # fmt: skip
    """The decision with the replay of stored requests, if it is asked for, the gate is on and there is a champion."""
    without = "the gate is off" if rules.gate == "off" else "" if champion else "there is no champion to replay against"
    if without and days is not None:
        say(f"--replay: {without}")
    if not champion or without or (days is None and rules.max_changed is None):
        return decision
    replay = measurements.replay(challenger, champion, days or rules.replay_days, rules.tolerance)
    return gates.with_replay(decision, replay, rules.max_changed)


def rollback(name: str, to: int | None = None, reason: str = "", service: Service | None = None) -> registry.Version:
    """Give `name` back to the champion before this one, or to the one with the number `to`, if it still answers."""
    registry_refusals.require_reason(reason)
    checking.require_entry(name, "promote")
    registry.aliases_of(name)  # a name that is not registered is refused as such
    known = ledger.read(name)
    ledger.settle(name, known)
    if to is None:
        to = _champion_before(name, known)
    else:
        registry_refusals.require_former(name, to, known)
        registry_refusals.require_not_removed(name, to, [version.version for version in registry.versions(name)])
    target = registry.version(name, to)
    require_answer(target)
    Change(name, known, "rollback", target, reason or "no reason was given").enter(service)
    return target


def _champion_before(name: str, known: State) -> int:
    """The last champion before this one that was not deleted."""
    for number in reversed(known.champions[:-1]):
        if number == known.champion:
            continue
        if registry.find(name, number):
            return number
        say(f"{name}: version {number} was champion before, but it was deleted")
    raise registry_refusals.nothing_before(name, known)


def require_answer(version: registry.Version) -> None:
    """Open a version and ask it the rows that it was registered with. Raises InputError if it does not answer."""
    rows = pa.Table.from_pylist(registry.example(version))
    answers = Predictor.load(registry.folder(version)).predict(rows)
    if answers.num_rows != rows.num_rows:
        raise InputError(f"{version}: {answers.num_rows} answers to {rows.num_rows} rows")
