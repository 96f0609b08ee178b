"""promote: the challenger against the champion on the same rows, by the rules of params.yaml; and the way back."""

from dataclasses import dataclass
from typing import Any

from prefect import flow, task

from pipelines.core import params, paths
from pipelines.core.errors import InputError
from pipelines.entries.evaluate import Evaluate
from pipelines.entries.promote import Promote
from pipelines.evaluation import gates
from pipelines.evaluation.split import Split
from pipelines.inference import behaviour, cost
from pipelines.inference.predictor import Predictor
from pipelines.tracking import registry


@dataclass(frozen=True)
class Outcome:
    """What the gate said, and which version serves now."""

    promoted: bool
    reasons: list[str]
    champion: registry.Version | None


@task
def measure(version: registry.Version, entry: Evaluate) -> dict[str, Any]:
    """Score a registered version on the rows of an evaluate entry, with the predictor that serves."""
    predictor = Predictor.load(registry.folder(version))
    split = Split(paths.rows(entry.task) / f"{entry.split}.parquet", predictor.task)
    return {
        "task": entry.task,
        "rows": split.rows,
        "metric": predictor.task.metric,
        **split.score(predictor.predict),
        "latency_ms": cost.latency(predictor, split),
        "behaviour": behaviour.check(predictor, split.parts, entry.behaviour),
    }


@flow(name="promote")
def promote(name: str) -> Outcome:
    """Make the challenger of `name` its champion if it keeps promote.<name>'s rules; else say why not."""
    rules = params.entry("promote", name, Promote)
    entry = params.entry("evaluate", rules.run, Evaluate)
    challenger = registry.get(name, registry.CHALLENGER)
    champion = registry.find(name, registry.CHAMPION)
    if champion and champion.version == challenger.version:
        return Outcome(False, [f"{challenger} is the champion already"], champion)
    decision = gates.decide(measure(challenger, entry), measure(champion, entry) if champion else None, rules)
    if decision.passed:
        registry.promote(challenger)
        champion = challenger
    return Outcome(decision.passed, decision.reasons, champion)


def rollback(name: str) -> registry.Version:
    """Give `name` back to the champion before this one."""
    if name not in (params.read().get("promote") or {}):
        raise InputError(f"params.yaml: promote: no entry {name!r}")
    return registry.rollback(name)
