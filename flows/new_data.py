"""new-data: see whether files that stages read, and that no stage writes, are others than at the last run."""

from prefect import flow

from flows import prefect_events
from flows.failure_hook import HOOKS
from pipelines.graph import lockfile, why


@flow(name="new-data", timeout_seconds=3600, **HOOKS)
def new_data() -> list[str]:
    """Tell of new data, once for each state of it; returns a line for each source that changed.

    A state is what the sources are and what the last run has read: a delivery that is taken back is new again.
    """
    changed = why.changed_sources()
    if not changed:
        prefect_events.forget("data")
        return []
    read = {
        f"{dep['path']} was {dep.get('md5')}"
        for stage in lockfile.locked().values()
        for dep in stage.get("deps", [])
        if dep["path"] in changed
    }
    state = "; ".join([*sorted(read), *(f"{source} is {md5}" for source, md5 in sorted(changed.items()))])
    # one event: a retraining takes all models
    prefect_events.tell_once("data", state, "data", "data", sources=", ".join(changed))
    return [f"{source} changed" for source in changed]
