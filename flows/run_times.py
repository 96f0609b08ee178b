"""The times of the flow run that is going on: when it should have started, and when it started."""

from datetime import UTC, datetime

from prefect.context import FlowRunContext


def scheduled() -> datetime:
    """The time at which the run should have started; now outside of a run."""
    return _time("expected_start_time")


def first_start() -> datetime:
    """The time at which the first attempt of the run started, whichever attempt this is; now outside of a run."""
    return _time("start_time")


def _time(name: str) -> datetime:
    context = FlowRunContext.get()
    time = getattr(context.flow_run, name) if context and context.flow_run else None  # of Prefect's own type
    return datetime.fromtimestamp(time.timestamp(), UTC) if time else datetime.now(UTC)
