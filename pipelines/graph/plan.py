"""The work of a run of the graph: the stages that are affected, in order, and the time from each stage to the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.graph import dvc_steps
from pipelines.graph.code_stage import CodeStage

# of a stage that has never run here: what the quickstart's take, so that the longest way is known from the first run on
GUESSED_SECONDS = {"pretrain": 30.0, "finetune": 15.0, "compress": 10.0, "export": 15.0, "evaluate": 4.0}


@dataclass
class Plan:
    """The stages in an order in which each comes after what it depends on.

    Attributes:
        upstream: the stages that each depends on.
        stale: those that would run now.
        affected: these and all that depend on them.
        code: the code as it is now, which the stage `code` writes; that is none of `stages`.
    """

    stages: dict[str, Any]
    upstream: dict[str, set[str]]
    stale: set[str]
    affected: list[str]
    code: CodeStage

    @classmethod
    def of(cls, repo: Any, targets: Sequence[str]) -> "Plan":
        order, upstream = dvc_steps.planned(repo, targets)
        code = CodeStage.of(order)
        stages = {stage.addressing: stage for stage in order if stage is not code.stage}
        upstream = {name: upstream[name].intersection(stages) for name in stages}
        stale = {name for name, stage in stages.items() if code.would_run(stage)}
        affected = list[str]()
        for name in stages:
            if name in stale or upstream[name].intersection(affected):
                affected.append(name)
        return cls(stages, upstream, stale, affected, code)

    def paths_to_end(self, seconds: dict[str, float]) -> dict[str, float]:
        """The seconds from the start of each stage to the end of the last stage that waits for it."""
        longest: dict[str, float] = {}
        for name in reversed(self.affected):
            after = [longest[other] for other in longest if name in self.upstream[other]]
            takes = seconds.get(name) or GUESSED_SECONDS.get(name.partition("@")[0], 2.0)
            longest[name] = takes + max(after, default=0.0)
        return longest
