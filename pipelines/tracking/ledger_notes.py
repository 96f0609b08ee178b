"""Notes in a ledger: how a service took up an event, which is seen only after the event was entered."""

import uuid
from dataclasses import replace
from typing import Any

from pipelines.tracking import ledger, ledger_events, store
from pipelines.tracking.ledger_events import SUFFIX, TAG, Event


def add(name: str, event: Event, served: dict[str, Any]) -> None:
    """Enter a note on an event of the ledger of `name`. It changes neither the champion nor the order of the events.

    Raises InputError if the server refuses it.
    """
    about = {"event": event.id, **served}
    seen = ledger_events.end(ledger.read(name).kept)
    note = replace(event, id=uuid.uuid4().hex, actor=ledger.actor(), verdict={}, content={}, served=about, seen=seen)
    client = store.connect()
    with store.explained(f"{name}: how the service took up version {event.version} was not recorded"):
        source = f"models:/{name}/{event.version}"
        client.create_model_version(name + SUFFIX, source, tags={TAG: note.text()}, await_creation_for=0)
        ledger.note_end(client, name, ledger.read(name).kept)
