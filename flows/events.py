"""Events that Prefect's server hears: deployments of prefect.yaml are started by them."""

from pathlib import Path

from prefect.events import emit_event
from prefect.settings import get_current_settings

from pipelines.core import json_file

TOLD = Path("state/events.json")  # which events were told, and must not be told again


def tell(what: str, about: str, **payload: str) -> bool:
    """Tell the server `bertline.WHAT` about a model, or `data`. Without a server nobody listens; nothing is told."""
    if not get_current_settings().api.url:
        return False
    resource = {"prefect.resource.id": f"bertline.about.{about}", "prefect.resource.name": about}
    emit_event(event=f"bertline.{what}", resource=resource, payload={"model": about, **payload})
    return True


def tell_once(key: str, what: str, about: str, **payload: str) -> None:
    """Tell an event that has a name of its own, and not a second time."""
    told = json_file.mapping(TOLD) if TOLD.is_file() else {}
    if key not in told and tell(what, about, **payload):
        json_file.write(TOLD, told | {key: what})
