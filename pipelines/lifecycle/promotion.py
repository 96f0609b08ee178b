"""Promotion: the challenger against the champion on the same rows, by the rules of params.yaml; and the way back."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from pipelines.core import params, resources
from pipelines.core.errors import InputError, UsageError, choices
from pipelines.core.progress import say
from pipelines.entries.baseline import Baseline
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.evaluation import gates
from pipelines.graph import checking
from pipelines.inference.predictor import Predictor
from pipelines.measurement import gate_measurements
from pipelines.tracking import ledger, registry
from pipelines.tracking.ledger_events import State


@dataclass(frozen=True)
class Outcome:
    """The gate's decision, and the version that serves now.

    Attributes:
        promoted: whether the version that serves is the one that was to be champion; it may have been before.
        changed: whether it became champion just now.
    """

    promoted: bool
    reasons: list[str]
    champion: registry.Version | None
    changed: bool = False


def measure(version: registry.Version, entry: Evaluate) -> gates.Measured:
    """Measure a registered version on the rows of an evaluate entry."""
    return gate_measurements.measure(registry.folder(version), entry, version.tags.get("approved") == "true")


def latency_ratio(challenger: registry.Version, champion: registry.Version, entry: Evaluate, threads: int) -> float:
    """The challenger's latency as a multiple of the champion's, measured in turn."""
    return gate_measurements.latency_ratio(registry.folder(challenger), registry.folder(champion), entry, threads)


@dataclass(frozen=True)
class Measurements:
    """The functions that measure versions; a flow gives its own, which show each measurement."""

    score: Callable[[registry.Version, Evaluate], gates.Measured] = measure
    latency: Callable[[registry.Version, registry.Version, Evaluate, int], float] = latency_ratio


def promote(
    name: str, version: int | None, instead_of: int | None, reason: str, measurements: Measurements = Measurements()
) -> Outcome:
    """Make the challenger of `name` its champion if it keeps promote.<name>'s rules; else say why not.

    The verdict is kept with the version, and with the event in the ledger.

    Args:
        version: another than the challenger.
        instead_of: the version that must be champion now.
        reason: why, for the ledger.
        measurements: the functions that measure versions.
    """
    rules = params.entry("promote", name, Promote)
    entry = params.entry("evaluate", rules.run, Evaluate)
    challenger, champion, known = _candidates(name, version, instead_of)
    if outcome := _without_measuring(challenger, champion, known, version is not None):
        return outcome
    content = registry.content(challenger)  # before it is measured: what is entered is what was there then
    decision = _decide(challenger, champion, entry, rules, measurements)
    if known.champion and not champion:
        decision = gates.without_champion(decision, known.champion)
    verdict = {"gate": rules.gate, **decision.verdict()}
    registry.describe(challenger, verdict)
    if not decision.passed and rules.gate == "enforce":
        return Outcome(False, decision.reasons, champion)
    why = {"off": "the gate is off", "dry_run": "the gate stops nothing"}.get(rules.gate, "it passed the gate")
    ledger.append(name, known, "promote", challenger.version, reason or why, verdict, content)
    return Outcome(True, decision.reasons, challenger, changed=True)


def without_measuring(name: str, version: int | None, instead_of: int | None) -> Outcome | None:
    """The outcome of `promote` where it needs no measurement; None where it does. Raises InputError as `promote` does.

    A command asks this before it starts what measures.
    """
    params.entry("evaluate", params.entry("promote", name, Promote).run, Evaluate)
    return _without_measuring(*_candidates(name, version, instead_of), version is not None)


class Candidates(NamedTuple):
    """The version to promote, the champion if there is one, and the ledger."""

    challenger: registry.Version
    champion: registry.Version | None
    known: State


def _candidates(name: str, version: int | None, instead_of: int | None) -> Candidates:
    challenger = registry.version(name, version) if version is not None else registry.get(name, registry.CHALLENGER)
    known = ledger.read(name)
    ledger.settle(name, known)
    if instead_of is not None and known.champion != instead_of:
        raise InputError(f"{name}: its champion is version {known.champion or 'none'}, not {instead_of}")
    champion = registry.find(name, known.champion) if known.champion else None
    return Candidates(challenger, champion, known)


def _without_measuring(
    challenger: registry.Version, champion: registry.Version | None, known: State, chosen: bool
) -> Outcome | None:
    if champion and champion.version == challenger.version:
        return Outcome(True, ["nothing to do"], champion)
    if not chosen and (taken_back := _taken_back(challenger, known)):
        return Outcome(False, [taken_back], champion)
    return None


def _taken_back(challenger: registry.Version, known: ledger.State) -> str:
    """A sentence if it was champion and a rollback went behind it; "" otherwise."""
    places = [place for place, entry in enumerate(known.entries) if entry.event.version == challenger.version]
    if not places or challenger.version in known.champions:
        return ""
    back = next(entry.event for entry in known.entries[places[-1] :] if entry.event.action == "rollback")
    return (
        f"refused: {challenger} was champion until {back.actor} rolled it back ({back.reason}); "
        f"--version {challenger.version} promotes it anyway"
    )


def _decide(
    challenger: registry.Version, champion: registry.Version | None, entry: Evaluate, rules: Promote,
    measurements: Measurements,
) -> gates.Decision:  # fmt: skip
    if rules.gate == "off":
        return gates.Decision([])
    scores = {name: gate_measurements.baseline(name, entry) for name in baselines(challenger.name, entry, rules)}
    if not champion:
        return gates.decide(measurements.score(challenger, entry), None, rules, baselines=scores)
    threads = resources.read().threads
    ratio = measurements.latency(challenger, champion, entry, threads) if rules.max_latency_ratio else None
    return gates.decide(
        measurements.score(challenger, entry), measurements.score(champion, entry), rules, ratio, scores
    )


def baselines(name: str, entry: Evaluate, rules: Promote) -> list[str]:
    """The baselines that the challenger must beat: the one that `beats` names, or all of its task and split."""
    if rules.beats is False:
        return []
    known = {key: params.entry("baseline", key, Baseline) for key in params.read().get("baseline", {})}
    scored = [key for key, its in known.items() if (its.task, its.split) == (entry.task, entry.split)]
    if rules.beats is True:
        return scored
    if (named := rules.beats) not in scored:
        its = params.entry("baseline", named, Baseline)
        raise UsageError(
            f"params.yaml: promote.{name}.beats: {named} is a baseline of {its.task} {its.split}, "
            f"not of {entry.task} {entry.split}"
        )
    return [named]


def rollback(name: str, to: int | None = None, reason: str = "") -> registry.Version:
    """Give `name` back to the champion before this one, or to the one with the number `to`, if it still answers."""
    checking.require_entry(name, "promote")
    known = ledger.read(name)
    ledger.settle(name, known)
    been = {entry.event.version for entry in known.entries}
    if to is None:
        to = _champion_before(name, known)
    elif to not in been:
        raise InputError(f"{name}: {choices('former champion', to, been)}; use `bertline promote` for a new one")
    elif to == known.champion:
        raise InputError(f"{name}: version {to} is the champion already")
    target = registry.version(name, to)
    require_answer(target)
    ledger.append(name, known, "rollback", to, reason or "no reason was given")
    return target


def _champion_before(name: str, known: State) -> int:
    """The last champion before this one that was not deleted."""
    for number in reversed(known.champions[:-1]):
        if number == known.champion:
            continue
        if registry.find(name, number):
            return number
        say(f"{name}: version {number} was champion before, but it was deleted")
    raise InputError(f"{name}: no champion before version {known.champion or 'none'} to roll back to")


def require_answer(version: registry.Version) -> None:
    """Open a version and ask it the rows that it was registered with. Raises InputError if it does not answer."""
    rows = pa.Table.from_pylist(registry.example(version))
    answers = Predictor.load(registry.folder(version)).predict(rows)
    if answers.num_rows != rows.num_rows:
        raise InputError(f"{version}: {answers.num_rows} answers to {rows.num_rows} rows")
