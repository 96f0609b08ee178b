"""The compress entries that a search tries, made by the graph before it, and the gates that judge its winner."""

from collections.abc import Iterable, Sequence
from typing import Any

from pipelines.core import params, paths, tables
from pipelines.core.errors import UsageError
from pipelines.core.progress import say
from pipelines.entries.compress import Compress
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.graph import checking, executor
from pipelines.reports import run_tables
from pipelines.search import chains
from pipelines.search.chains import Budget


def of_teacher(run: str) -> dict[str, dict[str, Any]]:
    """The compress entries whose teacher is `run`. Raises UsageError if there is none."""
    checking.require_entry(run, "finetune", "compress")
    every = params.read().get("compress", {})
    entries = {name: entry for name, entry in every.items() if entry.get("teacher") == run}
    if not entries:
        raise UsageError(
            f"params.yaml: no compress entry has the teacher {run}; add some, "
            "such as those of params/compress-livedoor.yaml, which has every method"
        )
    for name in entries:
        params.entry("compress", name, Compress)
    return entries


def made_from(entries: Iterable[str]) -> list[str]:
    """The compress entries whose teacher is one of these, or is made of one of these in turn."""
    every, above = params.read()["compress"], list(entries)
    further: list[str] = []
    while more := [name for name, entry in every.items() if entry.get("teacher") in above and name not in above]:
        further += more
        above += more
    for name in further:
        params.entry("compress", name, Compress)
    return further


def say_power(run: str, scored: Evaluate, budget: Budget) -> None:
    """Print what the rows can show, which are made before any model. Raises InputError if they cannot be made."""
    if not budget.trust_point:
        executor.run([f"prepare@{scored.task}"])
        rows = tables.open_parquet(paths.rows(scored.task) / f"{scored.split}.parquet").metadata.num_rows
        say(f"compress {run}: {chains.power_of(rows, budget)}")


def reproduce(run: str, entries: Sequence[str], scored: Evaluate) -> dict[str, str]:
    """Bring the entries' models up to date; returns the names of those that could not be made, each with the reason.

    Raises InputError if the teacher or its rows cannot be made, or no entry.
    """
    rows = f"prepare@{scored.task}"
    try:
        executor.run([*(f"compress@{name}" for name in entries), rows], keep_going=True)
    except executor.StageError as error:
        missing = {*error.failed, *error.left}
        lacks = [name for name in entries if f"compress@{name}" in missing]
        if missing & {rows, f"finetune@{run}", f"compress@{run}"} or len(lacks) == len(entries):
            raise
        return {name: error.failed.get(f"compress@{name}", str(error)) for name in lacks}
    return {}


def gates_of(run: str) -> dict[str, Promote]:
    """The promote entries of `run`, by name."""
    of = [name for name, rules in params.read().get("promote", {}).items() if rules.get("run") == run]
    return {name: params.entry("promote", name, Promote) for name in of}


def say_of_stricter_gates(run: str, budget: Budget) -> None:
    """Before any training, since a gate is asked at the end."""
    for name, rules in gates_of(run).items():
        if rules.gate == "enforce" and 100 * rules.may_lose < budget.max_loss:
            say(
                f"compress {run}: --max-loss allows {run_tables.points(budget.max_loss / 100)}, "
                f"but the gate {name} rejects losses above {run_tables.points(rules.may_lose)}"
            )
