"""Refusals that the content of the registry decides, before MLflow is imported: of versions, promotions, rollbacks."""

from collections.abc import Collection
from dataclasses import dataclass

from pipelines.core import params
from pipelines.core.errors import InputError, UsageError, choices
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.tracking import ledger_cache, ledger_events, registry_snapshot, store
from pipelines.tracking.ledger_events import CHAMPION, State
from pipelines.tracking.registry_snapshot import CHALLENGER, Snapshot

MAX_REASON = 4000  # characters of a reason; a name and a time go with it into a tag, which may have 5,000


@dataclass(frozen=True)
class Answer:
    """The answer to a promotion that needs no measurement, as `promotion.Outcome` has it."""

    promoted: bool
    reasons: list[str]
    champion: int | None


def of_promotion(name: str, version: int | None, instead_of: int | None) -> Answer | None:
    """The answer to `promote` if the registry's content decides it; None if a measurement, or MLflow, is needed.

    Raises InputError, with the sentence of the long way, for a model, version or alias that does not exist.
    """
    rules = params.entry("promote", name, Promote)
    params.entry("evaluate", rules.run, Evaluate)
    snapshot = registry_snapshot.read(name)
    if not snapshot:
        return None
    aliases = registry_snapshot.require_model(name, snapshot)
    if version is None and CHALLENGER not in aliases:
        raise InputError(f"{name}: {choices('alias', CHALLENGER, aliases)}")
    number = aliases[CHALLENGER] if version is None else version
    state = sound(name, snapshot)
    if not state or number not in snapshot.versions:
        return None
    require_instead_of(name, state, instead_of)
    if state.champion and state.champion not in snapshot.versions:
        return None
    if state.champion == number:
        return Answer(True, ["nothing to do"], number)
    if version is None and (sentence := taken_back(name, number, state)):
        return Answer(False, [sentence], state.champion)
    return None


def of_rollback(name: str, to: int | None) -> None:
    """Raise InputError, with the sentence of the long way, if the ledger has nothing to roll back to."""
    snapshot = registry_snapshot.read(name)
    if not snapshot:
        return
    registry_snapshot.require_model(name, snapshot)
    if state := sound(name, snapshot):
        if to is not None:
            require_former(name, to, state)
            require_not_removed(name, to, snapshot.versions)
        elif not set(state.champions[:-1]) - {state.champion}:
            raise nothing_before(name, state)


def of_version(name: str, which: str) -> None:
    """Raise InputError if the model has no version with the alias, or of the number, that `which` is."""
    if snapshot := registry_snapshot.read(name):
        number_of(name, which, snapshot)


def number_of(name: str, which: str, snapshot: Snapshot) -> int | None:
    """The number of the version that `which` is, its alias or number; None if MLflow's client has to say it.

    Raises InputError if there is none.
    """
    aliases = registry_snapshot.require_model(name, snapshot)
    if which.isdecimal():
        require_not_removed(name, int(which), snapshot.versions)
        if int(which) not in snapshot.versions:
            raise InputError(f"{name}: {choices('version', which, snapshot.versions)}")
        return int(which)
    if not sound(name, snapshot):
        return None
    if which not in aliases:
        raise InputError(f"{name}: {choices('alias', which, aliases)}")
    return aliases[which]


def sound(name: str, snapshot: Snapshot) -> State | None:
    """The ledger's state; None if it is damaged or the alias is elsewhere, which the long way reports and mends."""
    state = ledger_events.replay(snapshot.events)
    cache = ledger_cache.file(store.uri(), name)
    known = ledger_cache.events(cache)
    changed = not set(known) <= set(state.kept) or ledger_events.missing(state.kept, snapshot.end)
    aliased = (snapshot.aliases or {}).get(CHAMPION)
    if state.damage or changed or aliased != state.champion:
        return None
    if state.kept and [*state.kept] != known:
        ledger_cache.remember(cache, state.kept)
    return state


def require_reason(reason: str) -> None:
    """Raise UsageError if a reason is too long for the ledger, or for the tag of an approval."""
    if len(reason) > MAX_REASON:
        raise UsageError(f"--reason: {len(reason):,} characters; at most {MAX_REASON:,} are stored")


def require_instead_of(name: str, state: State, instead_of: int | None) -> None:
    """Raise InputError if another version than `instead_of` is champion."""
    if instead_of is not None and state.champion != instead_of:
        raise InputError(f"{name}: its champion is version {state.champion or 'none'}, not {instead_of}")


def taken_back(name: str, number: int, state: State) -> str:
    """A sentence if the version was champion and a rollback went behind it; "" otherwise."""
    champions: tuple[int, ...] = ()
    sentence = ""
    for entry in state.entries:
        before, champions, back = champions, ledger_events.champions_after(champions, entry.event), entry.event
        if number in before and number not in champions:
            was = f"until {back.actor} rolled it back"
            if before[-1] != number:
                was = f"before {back.actor} rolled back behind it, to version {back.version}"
            sentence = f"refused: {name} version {number} was champion {was} ({back.reason}); "
    if not sentence or number in champions:
        return ""
    return f"{sentence}--version {number} promotes it anyway"


def require_former(name: str, to: int, state: State) -> None:
    """Raise InputError if version `to` never was champion, or is it now."""
    been = {entry.event.version for entry in state.entries}
    if to not in been:
        raise InputError(f"{name}: {choices('former champion', to, been)}; use `bertline promote` for a new one")
    if to == state.champion:
        raise InputError(f"{name}: version {to} is the champion already")


def require_not_removed(name: str, number: int, versions: Collection[int]) -> None:
    """Raise InputError if there was such a version once: numbers are not given twice. `versions` are those of now."""
    if number not in versions and 0 < number < max(versions, default=0):
        raise InputError(
            f"{name}: version {number} was removed from the registry, with its files and its lineage; "
            f"`bertline history {name}` says whether it was champion"
        )


def nothing_before(name: str, state: State) -> InputError:
    """The refusal of a rollback without a former champion."""
    return InputError(f"{name}: no champion before version {state.champion or 'none'} to roll back to")
