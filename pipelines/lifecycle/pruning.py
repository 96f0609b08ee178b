"""prune: remove the old versions of a registered model that nothing names any more."""

from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, Json, TypeAdapter, ValidationError

from pipelines.core.errors import InputError, one_line, printable
from pipelines.core.progress import say
from pipelines.lifecycle import cascades
from pipelines.lifecycle.service_watch import ERRORS, Client, Service
from pipelines.tracking import ledger, ledger_events, registry, removal
from pipelines.tracking.ledger_events import State
from pipelines.tracking.registry import Version

MEGABYTE = 1_000_000
REASON = "not among the last champions, and without an alias"


class _Composition(BaseModel, extra="ignore"):
    champion: int


_CASCADE = TypeAdapter(Json[_Composition])


@dataclass
class Plan:
    """The versions of a model that stay, with the reasons, and those that go."""

    name: str
    stays: dict[int, list[str]] = field(default_factory=dict)
    goes: list[Version] = field(default_factory=list)
    state: State = field(default_factory=State)  # of the ledger, which the plan knows

    def answer(self, removed: list[int], size: int) -> dict[str, Any]:
        """The answer of `bertline prune`; `size` is in bytes."""
        return {
            "model": self.name,
            "would": [version.version for version in self.goes if version.version not in removed],
            "removed": removed,
            "bytes": size,
            "stays": {str(number): reasons for number, reasons in sorted(self.stays.items())},
        }


def planned(name: str, keep: int, service: Service | None = None) -> Plan:
    """The plan for a model: its champion, the last `keep` champions, and what an alias or the service names stay.

    The newest version stays too, as it may be registered just now. Raises InputError if the service does not answer.
    """
    versions = registry.versions(name)  # before the aliases: one that is registered meanwhile is not looked at
    state = ledger.read(name)
    plan = Plan(name, state=state)
    for alias, aliased in registry.aliases_of(name).items():
        if alias != ledger_events.CHAMPION:
            _stay(plan, int(aliased), f"has the alias {alias}")
    for place, number in enumerate(_champions(state, keep)):
        _stay(plan, number, "one of the last champions" if place else "is the champion")
    for number in _in_service(name, service) if service else ():
        _stay(plan, number, "is served")
    if versions:
        _stay(plan, versions[-1].version, "is the newest")
    for version in versions:
        if version.version in plan.stays and (below := _champion_below(version)):
            _stay(plan, below, f"is the champion of the cascade {version.version}")
    plan.goes = [version for version in versions if version.version not in plan.stays]
    existing = {version.version for version in versions}
    plan.stays = {number: reasons for number, reasons in plan.stays.items() if number in existing}
    return plan


def _stay(plan: Plan, number: int, reason: str) -> None:
    plan.stays.setdefault(number, []).append(reason)


def _champions(state: State, keep: int) -> list[int]:
    """The champion first, then the last `keep` in all by the events, and those that a rollback returns to."""
    by_events = list(dict.fromkeys(entry.event.version for entry in reversed(state.entries)))
    back = list(dict.fromkeys(reversed(state.champions)))
    current = [state.champion] if state.champion else []
    return list(dict.fromkeys([*current, *back[:keep], *by_events[:keep]]))


def _champion_below(version: Version) -> int | None:
    """The champion that a cascade was composed of; None for another version."""
    try:
        return _CASCADE.validate_python(version.tags.get(cascades.TAG)).champion
    except ValidationError:
        return None


def _in_service(name: str, service: Service) -> set[int]:
    """The versions of a model that a service has opened."""
    try:
        with Client(service) as client:
            status, models = client.ask("GET", "/models")
        if status != 200:
            raise ValueError(f"its status is {status}")
        ours = [model for model in models if model["model"] == name]
        beside = [model[side]["version"] for model in ours for side in ("canary", "shadow") if model.get(side)]
        return {int(number) for number in (*beside, *(model["version"] for model in ours))}
    except ERRORS as error:
        why = f"its versions cannot be read ({one_line(error, 100)})"
        raise InputError(f"the service at {service.address}: {why}; start it, or name it no more") from None


def prune(plan: Plan, remove: bool) -> dict[str, Any]:
    """Remove the versions that go, the oldest first, if `remove` is set; returns the answer of `bertline prune`.

    An event of the ledger names them before, so a promotion that began earlier does not count, and this does not if
    another version became champion since `planned`: then nothing is removed. A model without a champion has no such
    event, as an event of the ledger names the champion.

    Raises InputError in that case, and at the first that cannot be removed.
    """
    numbers = [version.version for version in plan.goes]
    if remove and numbers and plan.state.champion:
        # a rollback to the champion itself changes nothing, also for a release that knows no `removed`; it would
        # call a ledger with an action of another name damaged
        ledger.append(plan.name, plan.state, "rollback", plan.state.champion, REASON, removed=numbers)
    elif remove and numbers:
        say(f"not entered in the ledger: {plan.name} has no champion")
    size = sum(removal.size_bytes(version) for version in plan.goes)
    removed = []
    for version in plan.goes if remove else ():
        removal.remove(version)
        removed.append(version.version)
    return plan.answer(removed, size)


def plain(answer: dict[str, Any]) -> str:
    """The answer as lines of text."""
    lines = [f"version {number} stays: {', '.join(reasons)}" for number, reasons in answer["stays"].items()]
    megabytes = f", {answer['bytes'] / MEGABYTE:,.1f} MB" if answer["bytes"] else ""
    for versions, what in ((answer["removed"], "removed"), (answer["would"], "would remove")):
        if versions:
            lines.append(f"{what} {', '.join(f'version {number}' for number in versions)}{megabytes}")
    if answer["would"]:
        lines.append("add --yes to remove them; it cannot be taken back")
    elif not answer["removed"]:
        lines.append(f"{answer['model']}: nothing to remove")
    return printable("\n".join(lines), keep="\n")
