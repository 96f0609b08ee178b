"""retrain: run the graph, log an MLflow run for each stage that ran, register the new model as challenger."""

import os
from contextlib import suppress

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows import prefect_events
from flows.failure_hook import HOOKS
from flows.stage_task_runs import TaskRuns
from pipelines.core import locks, params
from pipelines.entries.promote import Promote
from pipelines.graph import checking, dvc_steps, executor
from pipelines.lifecycle import registration
from pipelines.tracking import ledger, registry, store

log_runs = task(cache_policy=NO_CACHE, retries=0)(registration.log_runs)
register = task(cache_policy=NO_CACHE)(registration.register)


@flow(name="retrain", timeout_seconds=7 * 24 * 3600, **HOOKS)
def retrain(names: list[str] | None = None, ran: list[str] | None = None) -> list[registry.Version]:
    """Retrain and register challengers.

    Args:
        names: entries of promote, of which the graph makes what they need; None takes all of it, and registers all.
        ran: stages that have run already, and of which an MLflow run is to be logged too.
    """
    chosen = names or []
    for name in chosen:  # a name that is none is refused before anything runs for hours
        params.entry("promote", name, Promote)
    checked, commit = checking.check(), os.environ.get("BERTLINE_COMMIT", "")
    with suppress(store.StoreError):  # one that does not answer may do so when all is trained
        store.connect()
    # whoever changed an artefact now would have it registered with the md5 of another
    with locks.claim_entry(*dvc_steps.WORKSPACE):
        stages_run = executor.run(registration.needed(chosen), board=TaskRuns(), locked=True)
        log_runs([*(ran or []), *stages_run], commit)
        if not chosen:
            prefect_events.forget("data")  # all of it is read now; whatever comes next is new
        chosen = chosen or list(checked["promote"])
        log_runs(registration.unlogged(chosen), commit)
        versions = [register(name, commit) for name in chosen]
    tell(versions)
    return versions


def tell(versions: list[registry.Version]) -> None:
    """Tell of each challenger that is not champion: once, and again when the champion has changed since.

    Raises InputError if Prefect's server does not take it; the next attempt tells the rest.
    """
    for version in versions:
        known, subject = ledger.read(version.name), f"challenger {version.name}"
        if known.champion == version.version:
            prefect_events.forget(subject)
        else:
            state = f"{version} after entry {known.last[0]} of the ledger"
            prefect_events.tell_once(subject, state, "challenger", version.name, version=str(version.version))
