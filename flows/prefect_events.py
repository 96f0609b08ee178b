"""Events that Prefect's server hears: deployments of prefect.yaml are started by them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from httpx import HTTPError
from prefect.client.orchestration import get_client
from prefect.events import Event, Resource
from prefect.settings import get_current_settings

from pipelines.core import json_file, locks
from pipelines.core.errors import InputError, one_line
from pipelines.core.progress import say

TOLD = Path("state/events/told.json")  # subject -> the last that was told of it


def tell(what: str, about: str, **payload: str) -> None:
    """Tell the server `bertline.WHAT` about a model, or `data`. Without a server nobody listens; nothing is told.

    What it tells of is done, so a server that does not take it stops nothing; a line says so.
    """
    try:
        _send(what, about, payload)
    except InputError as error:
        say(str(error))


def tell_once(subject: str, state: str, what: str, about: str, **payload: str) -> None:
    """Tell an event, unless `state` is the last that was told of `subject`. One that comes back is told again.

    Raises InputError if the server does not take it. It counts as not told then, and the next run tells it.
    """
    with _told() as states:
        if states.get(subject) != state and _send(what, about, payload):
            json_file.write(TOLD, states | {subject: state})


def forget(subject: str) -> None:
    """Whatever is next with `subject` is new: that which was told of it has passed."""
    with _told() as states:
        if states.pop(subject, None):
            json_file.write(TOLD, states)


@contextmanager
def _told() -> Iterator[dict[str, str]]:
    """Yield what was told before. Several flows tell, each in a process of its own: one at a time looks and writes."""
    TOLD.parent.mkdir(parents=True, exist_ok=True)
    with locks.wait_for_folder(TOLD.parent):
        yield json_file.cached(TOLD)  # of a damaged file all is told again


def _send(what: str, about: str, payload: dict[str, str]) -> bool:
    """Send an event; return whether there is a server. Prefect's own `emit_event` only puts it into a queue."""
    url = get_current_settings().api.url
    if not url:
        return False
    resource = Resource({"prefect.resource.id": f"bertline.about.{about}", "prefect.resource.name": about})
    event = Event(event=f"bertline.{what}", resource=resource, payload={"model": about, **payload})
    try:
        with get_client(sync_client=True) as client:
            client.request("POST", "/events", json=[event.model_dump(mode="json")]).raise_for_status()
    except (HTTPError, OSError) as error:
        why = one_line(error)
        raise InputError(f"Prefect's server at {url} did not take bertline.{what} of {about}: {why}") from None
    return True
