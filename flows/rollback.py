"""rollback: make a former champion the champion again. It is no flow, and a refusal does not wait for Prefect."""

from flows.local.watched_service import watched
from pipelines.lifecycle import promotion
from pipelines.tracking import registry


def rollback(name: str, to: int | None = None, reason: str = "", service: str = "") -> registry.Version:
    """Give `name` back to a former champion, by default the one before, if it still answers."""
    champion = promotion.rollback(name, to, reason, watched(service))
    from flows import prefect_events  # importing Prefect takes seconds

    prefect_events.tell("champion", name, version=str(champion.version))
    return champion
