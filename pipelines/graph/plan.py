"""The plan of a run of the graph: the affected stages, in order, and the time from each of them to the end."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pipelines.graph import dvc_steps
from pipelines.graph.code_stage import CodeStage

# for stages that have never run here: the times of the quickstart, so that the first run has a critical path too
GUESSED_SECONDS = {"pretrain": 30.0, "finetune": 15.0, "compress": 10.0, "export": 15.0, "evaluate": 4.0}


@dataclass
class Plan:
    """The stages of a run, in order of dependency.

    Attributes:
        stages: maps names to DVC's stages. The stage `code` is not among them.
        upstream: maps each stage to the stages that it depends on.
        stale: the stages that would run now.
        affected: the stale stages, and all that depend on them.
        code: the stage `code`, with the current code.
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
        """The critical path of each affected stage: the seconds from its start to the end of the last stage after it.

        Args:
            seconds: the seconds that stages took before; GUESSED_SECONDS stand for the others.
        """
        longest: dict[str, float] = {}
        for name in reversed(self.affected):
            after = [longest[other] for other in longest if name in self.upstream[other]]
            takes = seconds.get(name) or GUESSED_SECONDS.get(name.partition("@")[0], 2.0)
            longest[name] = takes + max(after, default=0.0)
        return longest
