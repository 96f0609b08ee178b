"""The baselines that a model must beat, by the key `beats` of its promote entry."""

from pipelines.core import params
from pipelines.core.errors import UsageError
from pipelines.entries.baseline import Baseline
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote


def names(promoted: str, entry: Evaluate, rules: Promote) -> list[str]:
    """The one that `beats` names, or all of the task and the split of an evaluate entry.

    Raises UsageError if the one that is named is of other rows, or none. `promoted` is the name of the promote entry.
    """
    if rules.beats is False:
        return []
    known = {key: params.entry("baseline", key, Baseline) for key in params.read().get("baseline", {})}
    of_these_rows = [key for key, its in known.items() if (its.task, its.split) == (entry.task, entry.split)]
    if rules.beats is True:
        return of_these_rows
    place, named, rows = f"params.yaml: promote.{promoted}.beats", rules.beats, f"{entry.task} {entry.split}"
    if named not in known:
        there_are = ", ".join(of_these_rows) or "none"
        raise UsageError(f"{place}: {named} is not a baseline of {rows}; there are: {there_are}")
    if named not in of_these_rows:
        raise UsageError(f"{place}: {named} is a baseline of {known[named].task} {known[named].split}, not of {rows}")
    return [named]
