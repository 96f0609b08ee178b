"""The ledger of a registered model: who made which version champion, when and why.

MLflow overwrites aliases: they have no history, and of two concurrent writers the last one wins without notice. So the
ledger of NAME is a registered model of its own, NAME.ledger, and each event is a version of it. MLflow numbers versions
in sequence for all writers, and that order decides (`ledger_events.replay`). The alias champion follows the ledger. A
user who may write NAME but not NAME.ledger can register versions, but cannot promote one.
"""

import contextlib
import getpass
import os
import socket
import uuid
from collections.abc import Sequence
from dataclasses import replace
from http import HTTPStatus
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from pipelines.core.errors import InputError, one_line
from pipelines.core.progress import say
from pipelines.tracking import ledger_cache, ledger_events, store, users
from pipelines.tracking.ledger_events import CHAMPION, END, SUFFIX, TAG, Action, Event, Kept, State

PAGE = 10_000  # events in one request
TRIES = 100  # to set the alias while others promote


def read(name: str) -> State:
    """The state of the ledger of `name`; empty if there is no ledger yet.

    The state's `damage` also reports the first event that has changed since this checkout has read it.
    """
    client, file = store.connect(), _cache(name)
    known = ledger_cache.events(file)
    with store.explained(f"{name}: the ledger cannot be read"):
        noted = _noted(client, name)  # read before the events, as another event may be written meanwhile
        state = ledger_events.replay(_fetch(client, name))
    if [*state.kept] != known:
        ledger_cache.remember(file, state.kept)
    now = set(state.kept)
    more = [_not_as_before(event) for event in known if event not in now][:1]
    more += [gone] if (gone := ledger_events.missing(state.kept, noted)) else []
    return replace(state, damage=(*state.damage, *more))


def champion(name: str) -> int | None:
    """The current champion; None if there is none. Only events from the last one in the local cache on are read."""
    return _latest(name).champion


def content(name: str, version: int) -> dict[str, str]:
    """The content of a version when it became champion: artifact -> digest; empty if it never was champion."""
    return _latest(name).content(version)


def _latest(name: str) -> State:
    client = store.connect()
    with store.explained(f"{name}: the ledger cannot be read"):
        file = _cache(name)
        known = ledger_cache.events(file)
        records = _onward(client, name, known)
    if records != known:
        ledger_cache.remember(file, records)
    return ledger_events.replay(records)


def _noted(client: MlflowClient, name: str) -> str:
    """The end of the ledger as recorded in the tag END; "" without a ledger or a tag."""
    try:
        return str(client.get_registered_model(name + SUFFIX).tags.get(END, ""))
    except MlflowException as error:
        if error.get_http_status_code() != HTTPStatus.NOT_FOUND:
            raise
        return ""


def note_end(client: MlflowClient, name: str, records: Sequence[Kept]) -> None:
    """Record the end of the ledger in the tag END, and its events here.

    With two writers at once the tag may name an earlier event, validly.
    """
    ledger_cache.remember(_cache(name), records)
    with contextlib.suppress(MlflowException):  # the event is entered even if this fails
        client.set_registered_model_tag(name + SUFFIX, END, ledger_events.end(records))


def _cache(name: str) -> Path:
    return ledger_cache.file(store.uri(), name)


def _not_as_before(event: Kept) -> str:
    return f"event {event.number} was changed or removed after it was read here"


def _onward(client: MlflowClient, name: str, known: Sequence[Kept]) -> list[Kept]:
    """All events. Of the `known` ones only the last is read again, to check that it is the same."""
    new = _fetch(client, name, known[-1].number if known else 1)
    if known and new[:1] != [known[-1]]:  # changed, or another ledger of that name
        say(f"{name}: the ledger was tampered with: {_not_as_before(known[-1])}")
        return _fetch(client, name)
    return [*known[:-1], *new]


def _fetch(client: MlflowClient, name: str, begin: int = 1) -> list[Kept]:
    """Read the events from number `begin` on."""
    records: list[Kept] = []
    token = None
    while token != "":
        page = client.search_model_versions(
            f"name='{name}{SUFFIX}' and version_number >= {begin}",
            max_results=PAGE,
            order_by=["version_number ASC"],
            page_token=token,
        )
        records += [
            Kept(int(version.version), version.creation_timestamp, version.tags.get(TAG, "")) for version in page
        ]
        token = page.token or ""
    return records


def append(
    name: str,
    known: State,
    action: Action,
    version: int,
    reason: str,
    verdict: dict[str, Any] | None = None,
    content: dict[str, str] | None = None,
    removed: Sequence[int] = (),
) -> State:
    """Make `version` champion if no event was entered since `known` was read; returns the new state.

    Args:
        content: artifact of the version -> digest. They are checked whenever the version is opened.
        removed: the versions that `prune` is about to remove; `version` is the champion then, and stays.

    Raises InputError if another event was first, if the server refuses this one, or if there is no ledger and another
    user owns `name`.
    """
    after = (*known.last, actor(), reason, verdict or {}, content or {})
    seen = ledger_events.end(known.kept)
    event = Event(uuid.uuid4().hex, action, version, known.champion, *after, removed=tuple(removed), seen=seen)
    client = store.connect()
    with store.explained(f"{name}: {event.name()} was not recorded"):
        if not create(client, name):
            raise InputError(
                f"{name}: {event.name()} was not recorded: {name}{SUFFIX} does not exist, and only the owner of {name} "
                "may create it; ask the owner"
            )
        error = _write(client, name, event)
    unsure = f"{name}: see `bertline history` for whether {event.name()} was recorded"
    with store.explained(unsure):
        now = ledger_events.replay(_onward(client, name, known.kept))
    note_end(client, name, now.kept)
    if error and not _is_in(now, event):
        raise InputError(f"{unsure}: {store.without_passwords(one_line(error))}")
    if not _counts(now, event):
        raise _overtaken(name, event, now)
    settle(name, now, tell=False)
    return now


def _overtaken(name: str, event: Event, now: State) -> InputError:
    counting = sorted((*now.entries, *now.removals), key=lambda entry: entry.number)
    first = next(entry for entry in counting if entry.number > event.after).event
    did = f"made version {first.version} champion; compare with that version"
    if first.removed:
        did = f"entered {first.name()}; run the command again"
    return InputError(f"{name}: {event.name()} was not recorded: {first.actor} was first and {did}")


def _write(client: MlflowClient, name: str, event: Event) -> MlflowException | None:
    """Send an event. Raises if the server refuses it; returns the error if the server may have entered it anyway."""
    source = f"models:/{name}/{event.version}"
    try:
        client.create_model_version(name + SUFFIX, source, tags={TAG: event.text()}, await_creation_for=0)
    except MlflowException as error:
        if error.get_http_status_code() < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        return error
    return None


def _counts(state: State, event: Event) -> bool:
    return any(entry.event.id == event.id for entry in (*state.entries, *state.removals))


def _is_in(state: State, event: Event) -> bool:
    """Return whether the server has entered the event; an overtaken event is entered, but does not count."""
    return _counts(state, event) or any(entry.event.id == event.id for entry in state.overtaken)


def create(client: MlflowClient, name: str) -> bool:
    """Create the ledger if it does not exist; return whether there is one now.

    The creator of a registered model may write it, and decides who else may. So only a user who is about to create
    `name`, or who owns it, may create its ledger. Otherwise a user who may only register versions could create a
    ledger, and promote with it.

    Raises InputError if another user has created the ledger before there was a model `name`.
    """
    there = _is_there(client, name)
    if not _is_there(client, name + SUFFIX):
        if there and not users.manages(name):
            return False
        try:
            client.create_registered_model(name + SUFFIX, description=f"Which version of {name} was champion when.")
            return True
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another writer was first, or this user may not see it
                raise
    if not there and not users.manages(name + SUFFIX, as_administrator=False):
        raise InputError(
            f"{name}{SUFFIX}: another user created it before {name}, and could choose the champion; have an "
            f"administrator delete it, unless {name} is being registered just now"
        )
    return True


def _is_there(client: MlflowClient, name: str) -> bool:
    """Return whether there is a registered model of that name which this user may see."""
    try:
        client.get_registered_model(name)
    except MlflowException as error:
        if error.get_http_status_code() not in (HTTPStatus.NOT_FOUND, HTTPStatus.FORBIDDEN):
            raise
        return False
    return True


def settle(name: str, state: State, tell: bool = True) -> None:
    """Set the alias to the ledger's champion, and print it if the alias was elsewhere; print the ledger's damage.

    The alias differs if a process was killed after it wrote the event, or if somebody moved the alias by hand. A
    deleted champion cannot have the alias: this is printed, and is not an error.
    """
    for damage in state.damage:
        say(f"{name}: the ledger was tampered with: {damage}")
    client = store.connect()
    with store.explained(
        f"{name}: the champion in the ledger is version {state.champion}, but the alias cannot be moved"
    ):
        for _ in range(TRIES):
            held = client.get_registered_model(name).aliases.get(CHAMPION)
            if (int(held) if held else None) == state.champion:
                return
            if state.champion and not has_version(client, name, state.champion):
                say(f"{name}: version {state.champion} is the champion in the ledger, but it was deleted")
                return
            if state.champion:
                client.set_registered_model_alias(name, CHAMPION, str(state.champion))
            else:
                client.delete_registered_model_alias(name, CHAMPION)
            if tell:
                was = f"version {held}" if held else "no version"
                now = f"version {state.champion}" if state.champion else "no version"
                say(f"{name}: {was} had the alias {CHAMPION}, but the ledger says {now}; corrected the alias")
            state = ledger_events.replay(_onward(client, name, state.kept))  # another version may be champion by now


def has_version(client: MlflowClient, name: str, number: int) -> bool:
    """Return whether a version exists; it may have been deleted in MLflow."""
    try:
        client.get_model_version(name, str(number))
    except MlflowException as error:
        if error.get_http_status_code() != HTTPStatus.NOT_FOUND:
            raise
        return False
    return True


def actor() -> str:
    """The name to record as writer of an event: BERTLINE_ACTOR, else the MLflow user, else the user of this machine."""
    name = os.environ.get("BERTLINE_ACTOR") or os.environ.get("MLFLOW_TRACKING_USERNAME")
    if name:
        return name
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a container may run as a user without a name
        user = f"user-{os.getuid()}"
    return f"{user}@{socket.gethostname()}"
