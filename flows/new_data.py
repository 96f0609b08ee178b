"""new-data: see whether files that stages read, and that no stage writes, are others than at the last run."""

from prefect import flow

from flows import events
from flows.notices import HOOKS
from pipelines.graph import why


@flow(name="new-data", timeout_seconds=3600, **HOOKS)
def new_data() -> list[str]:
    """Tell of new data, once for each state of it; returns a line for each source that changed."""
    found = why.changed_sources()
    if found:  # one event: a retraining takes all models
        events.tell_once(f"data {' '.join(found.values())}", "data", "data", sources=", ".join(found))
    return [f"{source} changed" for source in found]
