"""The ledger of a registered model: who made which version champion, when and why.

MLflow's aliases are plain overwrites: they have no history, and the last of two writers wins unseen. So the ledger of
NAME is a registered model of its own, NAME.ledger, and each event is a version of it. MLflow numbers versions one after
the other, whoever writes them, and that order decides (`events.replay`). The alias champion follows the ledger.
Who may write NAME but not NAME.ledger may register versions and cannot promote one.
"""

import contextlib
import getpass
import hashlib
import os
import socket
import uuid
from collections.abc import Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.exceptions import MlflowException
from pydantic import TypeAdapter, ValidationError

from pipelines.core import json_file
from pipelines.core.errors import InputError, one_line
from pipelines.core.progress import say
from pipelines.tracking import events, store
from pipelines.tracking.events import Action, Event, Kept, State

CHAMPION = "champion"  # the alias
SUFFIX = ".ledger"
TAG = "event"  # of a version of NAME.ledger
PAGE = 10_000  # events of one request
CACHE = Path("state/ledger")
_KEPT = TypeAdapter(list[Kept])
TRIES = 5  # to settle the alias while others promote


def read(name: str) -> State:
    """What the ledger of `name` says; nothing if there is none yet."""
    with store.explained(f"{name}: the ledger cannot be read"):
        return events.replay(_fetch(store.connect(), name))


def champion(name: str) -> int | None:
    """The present champion. Events that this checkout has read before are not read again, but the last of them."""
    client = store.connect()
    with store.explained(f"{name}: the ledger cannot be read"):
        file = CACHE / f"{hashlib.sha256(f'{store.uri()} {name}'.encode()).hexdigest()[:16]}.json"
        known = _cached(file)
        kept = _onward(client, name, known)
    if kept != known:
        with contextlib.suppress(InputError, OSError):  # another process writes the same, or the folder is read-only
            json_file.write(file, kept)
    return events.replay(kept).champion


def _cached(file: Path) -> list[Kept]:
    """The events that were read before; none if the file is of no use."""
    try:
        return _KEPT.validate_python(json_file.read(file))
    except (InputError, ValidationError):
        return []


def _onward(client: MlflowClient, name: str, known: Sequence[Kept]) -> list[Kept]:
    """All events, of which the `known` ones are not read again, but the last."""
    new = _fetch(client, name, known[-1].number if known else 1)
    if known and new[:1] != [known[-1]]:  # another ledger of that name, or a changed one
        return _fetch(client, name)
    return [*known[:-1], *new]


def _fetch(client: MlflowClient, name: str, begin: int = 1) -> list[Kept]:
    """The events from number `begin` on."""
    found: list[Kept] = []
    token = None
    while token != "":
        page = client.search_model_versions(
            f"name='{name}{SUFFIX}' and version_number >= {begin}",
            max_results=PAGE,
            order_by=["version_number ASC"],
            page_token=token,
        )
        found += [Kept(int(each.version), each.creation_timestamp, each.tags.get(TAG, "")) for each in page]
        token = page.token or ""
    return found


def append(
    name: str, known: State, action: Action, version: int, reason: str, verdict: dict[str, Any] | None = None
) -> State:
    """Make `version` champion, if nothing has happened since `known` was read; returns what the ledger says then.

    Raises InputError if another event was first, or if the server does not take this one.
    """
    after, digest = known.last
    event = Event(uuid.uuid4().hex, action, version, known.champion, after, digest, actor(), reason, verdict or {})
    client = store.connect()
    with store.explained(f"{name}: {action} of version {version} is not entered"):
        _open(client, name)
        error = _write(client, name, event)
    with store.explained(f"{name}: whether {action} of version {version} is entered only `bertline history` will say"):
        now = events.replay(_onward(client, name, known.kept))
    if error and not _is_in(now, event):
        raise InputError(f"{name}: {action} of version {version} is not entered: {one_line(error)}")
    if not _counts(now, event):
        first = next(entry for entry in now.entries if entry.number > after)
        raise InputError(
            f"{name}: {action} of version {version} is not entered: {first.event.actor} was first and made version "
            f"{first.event.version} champion; compare with that one"
        )
    settle(name, now, told=False)
    return now


def _write(client: MlflowClient, name: str, event: Event) -> MlflowException | None:
    """Send an event; returns the error of a server that may have taken it all the same. A refusal is raised."""
    source = f"models:/{name}/{event.version}"
    try:
        client.create_model_version(name + SUFFIX, source, tags={TAG: event.text()}, await_creation_for=0)
    except MlflowException as error:
        if error.get_http_status_code() < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise
        return error
    return None


def _counts(state: State, event: Event) -> bool:
    return any(entry.event.id == event.id for entry in state.entries)


def _is_in(state: State, event: Event) -> bool:
    """Whether the server has taken the event, first or not."""
    return _counts(state, event) or any(entry.event.id == event.id for entry in state.overtaken)


def _open(client: MlflowClient, name: str) -> None:
    """Create the ledger if it is not there."""
    try:
        client.get_registered_model(name + SUFFIX)
    except MlflowException:
        try:
            client.create_registered_model(name + SUFFIX, description=f"Which version of {name} was champion when.")
        except MlflowException as error:
            if error.error_code != "RESOURCE_ALREADY_EXISTS":  # another writer was first
                raise


def settle(name: str, state: State, told: bool = True) -> None:
    """Put the alias where the ledger has the champion, and say so if it was elsewhere.

    A process may have been killed between the two, or somebody may have moved the alias by hand.
    """
    client = store.connect()
    for damage in state.damage:
        say(f"{name}: the ledger was tampered with: {damage}")
    with store.explained(
        f"{name}: by the ledger its champion is version {state.champion}, but the alias cannot be moved"
    ):
        for _ in range(TRIES):
            held = client.get_registered_model(name).aliases.get(CHAMPION)
            if (int(held) if held else None) == state.champion:
                return
            if state.champion:
                client.set_registered_model_alias(name, CHAMPION, str(state.champion))
            else:
                client.delete_registered_model_alias(name, CHAMPION)
            if told:
                was = f"version {held}" if held else "no version"
                now = f"version {state.champion}" if state.champion else "no version"
                say(f"{name}: {was} had the alias {CHAMPION}, the ledger says {now}; the alias is mended")
            state = events.replay(_onward(client, name, state.kept))  # another may have been promoted meanwhile


def actor() -> str:
    """Who writes an event: BERTLINE_ACTOR, or the user of the server, or that of this machine."""
    given = os.environ.get("BERTLINE_ACTOR") or os.environ.get("MLFLOW_TRACKING_USERNAME")
    return given or f"{getpass.getuser()}@{socket.gethostname()}"
