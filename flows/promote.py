"""promote: compare the challenger with the champion by the rules of params.yaml."""

from typing import Annotated

from prefect import flow, task
from pydantic import Field

from flows import prefect_events
from flows.failure_hook import HOOKS
from flows.local.watched_service import watched
from pipelines.lifecycle import promotion, request_replay

MEASUREMENTS = promotion.Measurements(
    task(promotion.measure), task(promotion.latency_ratio), task(request_replay.compare)
)
Days = Annotated[int, Field(ge=1, le=36_500)]  # `bertline trigger` takes any number, and Prefect's server checks it


@flow(name="promote", timeout_seconds=24 * 3600, **HOOKS)
def promote(
    name: str, version: int | None = None, instead_of: int | None = None, reason: str = "", service: str = "",
    replay_days: Days | None = None, dry: bool = False,
) -> promotion.Outcome:  # fmt: skip
    """Make the challenger of `name` its champion if it keeps promote.<name>'s rules; else say why not.

    Args:
        version: another than the challenger.
        instead_of: the version that must be champion now.
        reason: why, for the ledger.
        service: the address of the HTTP service to watch while it takes the new champion up.
        replay_days: the days whose stored requests challenger and champion answer.
        dry: whether the challenger is only measured.
    """
    outcome = promotion.promote(name, version, instead_of, reason, MEASUREMENTS, watched(service), replay_days, dry)
    if outcome.changed and outcome.champion:
        prefect_events.tell("champion", name, version=str(outcome.champion.version))
    return outcome
