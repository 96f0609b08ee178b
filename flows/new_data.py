"""new-data: see whether files that stages read, and that no stage writes, are others than at the last run."""

from prefect import flow

from flows import events
from flows.notices import HOOKS
from pipelines.core import checking
from pipelines.graph import why


@flow(name="new-data", timeout_seconds=3600, **HOOKS)
def new_data() -> list[str]:
    """Tell of new data, once for each state of it; returns a line for each source that changed."""
    found = why.changed_sources()
    for model in checking.check()["promote"] if found else ():
        events.tell_once(f"data {model} {' '.join(found.values())}", "data", model, sources=", ".join(found))
    return [f"{source} changed" for source in found]
