"""compress: search the compress entries of a teacher, and chains of them, under a budget of score.

The graph makes the entries' models, and the folder of the search the chains'. What is there is not made again, so an
interrupted search goes on.
"""

from prefect import flow, task
from prefect.cache_policies import NO_CACHE

from flows.failure_hook import HOOKS
from pipelines.graph.stage_runner import StageRunner
from pipelines.search import chain_search
from pipelines.search.chain_results import Searched
from pipelines.search.chains import Budget


@flow(name="compress", timeout_seconds=7 * 24 * 3600, **HOOKS)
def compress(run: str, budget: Budget | None = None) -> Searched:
    """Find the smallest or fastest model made from `run` that keeps the budget; writes a page of all that was tried.

    Chains are made of the entries whose teacher is `run`. What entries make of these is tried as it is.

    Raises InputError if the teacher, its rows or every entry cannot be made.
    """
    return chain_search.search(run, budget or Budget(), _as_task)


def _as_task(stages: StageRunner, stage: str, key: str) -> None:
    """Run a stage as a task of Prefect, which shows it."""
    task(name=f"{stage}@{key}", cache_policy=NO_CACHE)(stages.run)(stage, key)
