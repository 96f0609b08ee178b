"""score-folder: predict every row of a folder, partition by partition, with the champion that the job began with."""

from prefect import flow

from flows.failure_hook import HOOKS
from flows.local import code_commit
from pipelines.core.canonical_json import canonical
from pipelines.scoring import job
from pipelines.scoring.manifest import Entry
from pipelines.tracking import registry


@flow(name="score-folder", timeout_seconds=7 * 24 * 3600, **HOOKS)
def score_folder(
    name: str,
    source: str,
    target: str,
    alias: str = registry.CHAMPION,
    prefix: str = "",
    max_bad: str = job.MAX_BAD,
    longest: int = job.LONGEST,
    since: str = "",
    workers: int = 1,
    as_json: bool = False,
    receipts: str = "",
    states: bool = False,
) -> job.Outcome:
    """Score the files of `source` into the folder `target`; with `as_json`, a line of JSON is printed for each.

    `receipts` is a file of keys: each answer has a receipt. `states`: the job keeps encoder states.
    """
    options = job.Options(prefix, max_bad, longest, since, receipts, code_commit.current(), states)
    return job.run(source, target, name, alias, options, _print if as_json else None, workers)


def _print(entry: Entry) -> None:
    print(canonical(entry).decode(), flush=True)
