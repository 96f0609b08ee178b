"""Run the graph: stages side by side under limits, each forked from a warm process; `bertline run`.

What others wait for longest starts first (its critical path, by the seconds of earlier runs). dvc.lock and the cache
are as `dvc repro` would leave them.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.core import json_file, params, paths, resources
from pipelines.core.errors import InputError
from pipelines.core.progress import say
from pipelines.core.stage import alone
from pipelines.graph import closure, dependencies, repository
from pipelines.graph.board import Board, last_lines
from pipelines.graph.limits import Limits
from pipelines.graph.warm import Command, Ended, Warm

LOGS, SECONDS = Path("state/logs"), Path("state/run/seconds.json")
TICK_SECONDS = 0.2
# of a stage that has never run here: what the quickstart's take, so that the longest way is known from the first run on
GUESSED_SECONDS = {"pretrain": 30.0, "finetune": 15.0, "compress": 10.0, "export": 15.0, "evaluate": 4.0}
# libraries that start threads of their own when imported; a forked child lacks these, and waits for them at its end
NEVER_AHEAD = {"onnxruntime"}


def run(targets: Sequence[str] = (), jobs: int = 0, keep_going: bool = False, board: Board | None = None) -> list[str]:
    """Bring the graph, or `targets` and what they depend on, up to date; returns the stages that ran.

    Args:
        jobs: the most stages at the same time; 0: as many as the limits allow.
        keep_going: run all that does not depend on a failed stage.
        board: where the run is shown; on this terminal if nowhere else.

    Raises:
        InputError: a stage failed. What runs at that time runs to its end, and is kept.
    """
    with alone("run", "all"), repository.opened() as repo:
        with repository.held(repo):
            plan = Plan.of(repo, targets)
        if not plan.affected:
            say(f"{len(plan.stages)} stages are up to date")
            return []
        with repository.writing(repo, [plan.stages[name] for name in plan.affected]):
            return Executor(repo, plan, jobs, keep_going, board or Board()).run()


@dataclass
class Plan:
    """The stages in an order in which each comes after what it depends on.

    Attributes:
        upstream: the stages that each depends on.
        stale: those that would run now.
        affected: these and all that depend on them.
    """

    stages: dict[str, Any]
    upstream: dict[str, set[str]]
    stale: set[str]
    affected: list[str]

    @classmethod
    def of(cls, repo: Any, targets: Sequence[str]) -> "Plan":
        order, upstream = repository.planned(repo, targets)
        stages = {stage.addressing: stage for stage in order}
        stale = {name for name, stage in stages.items() if stage.changed()}
        affected = list[str]()
        for name in stages:
            if name in stale or upstream[name].intersection(affected):
                affected.append(name)
        return cls(stages, upstream, stale, affected)

    def paths_to_end(self, seconds: dict[str, float]) -> dict[str, float]:
        """How long it takes from the start of each stage to the end of the last that waits for it."""
        found: dict[str, float] = {}
        for name in reversed(self.affected):
            after = [found[other] for other in found if name in self.upstream[other]]
            own = seconds.get(name) or GUESSED_SECONDS.get(name.partition("@")[0], 2.0)
            found[name] = own + max(after, default=0.0)
        return found


@dataclass
class Executor:
    """One run of the affected stages of a plan."""

    repo: Any
    plan: Plan
    jobs: int
    keep_going: bool
    board: Board
    limits: Limits = field(default_factory=Limits)
    ran: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.seconds: dict[str, float] = json_file.mapping(SECONDS) if SECONDS.is_file() else {}
        longest = self.plan.paths_to_end(self.seconds)
        self.left = sorted(self.plan.affected, key=lambda name: -longest[name])
        self.done = set(self.plan.stages) - set(self.left)
        self.code = Code()

    def run(self) -> list[str]:
        LOGS.mkdir(parents=True, exist_ok=True)
        ahead = dict.fromkeys(module for name in self.left for module in self.code.modules(name))
        with Warm(ahead) as warm, self.board.shown():
            while self.left or self.board.running:
                self._start_all(warm)
                if not self.board.running and not self._may_start():
                    break
                try:
                    events = warm.events(TICK_SECONDS) if self.board.running else []
                except EOFError:
                    names = ", ".join(self.board.running)
                    raise InputError(f"the warm process was killed, and {names} with it; run again") from None
                for event in events:
                    if isinstance(event, Ended):
                        self._end(event)
                self.board.refresh()
        if self.ran:
            with repository.held(self.repo):
                repository.in_order(self.repo, list(self.plan.stages))
        if self.failed:
            raise InputError(self._reasons())
        return self.ran

    def _may_start(self) -> list[str]:
        """The stages whose upstream is complete, the most urgent first."""
        if self.failed and not self.keep_going:
            return []
        return [name for name in self.left if self.plan.upstream[name] <= self.done]

    def _start_all(self, warm: Warm) -> None:
        """Start what the limits allow; nothing overtakes a more urgent stage that waits for room."""
        while ready := self._may_start():
            name = ready[0]
            if self.jobs and len(self.board.running) >= self.jobs:
                return
            section, _, key = name.partition("@")
            environment = self.limits.take(name, resources.read(section, key))
            if environment is None:
                return
            self.left.remove(name)
            try:
                runs = self._begin(name)
            except (InputError, OSError) as error:
                self._fail(name, str(error))
                runs = False
            if not runs:
                self.limits.give_back(name)
                continue
            warm.start(self._command(name, environment))
            self.board.start(name, log_of(name), self.seconds.get(name, 0.0))

    def _begin(self, name: str) -> bool:
        """Whether the stage's command has to run."""
        stage = self.plan.stages[name]
        with repository.sentences(), repository.held(self.repo):
            if name not in self.plan.stale and not stage.changed():
                self.done.add(name)
                return False
            self.code.check(name)
            if repository.begin(stage):
                return True
        self.done.add(name)
        self.ran.append(name)
        self.board.tell(f"{name}: taken from DVC's run-cache")
        return False

    def _command(self, name: str, environment: dict[str, str]) -> Command:
        stage, log = self.plan.stages[name], log_of(name)
        line = stage.cmd if isinstance(stage.cmd, str) else " && ".join(stage.cmd)
        log.unlink(missing_ok=True)
        told = {"DVC_STAGE": name, "DVC_ROOT": self.repo.root_dir}
        return Command(name, line, stage.wdir, str(log.resolve()), self.code.modules(name), environment | told)

    def _end(self, event: Ended) -> None:
        name = event.name
        self.limits.give_back(name)
        if event.status:
            self.board.end(name, "failed")
            self._fail(name, _reason(event.status, log_of(name)))
            return
        try:
            with repository.sentences(), repository.held(self.repo):
                repository.finish(self.plan.stages[name])
        except (InputError, OSError) as error:
            self.board.end(name, "failed")
            self._fail(name, str(error))
            return
        self.seconds[name] = round(self.board.end(name, "done"), 1)
        with paths.fresh_file(SECONDS) as aside:
            aside.write_text(json.dumps(self.seconds, indent=1) + "\n", encoding="utf-8")
        self.done.add(name)
        self.ran.append(name)

    def _fail(self, name: str, why: str) -> None:
        """A stage failed: what depends on it will not start."""
        self.failed[name] = why
        if not self.keep_going and self.board.running:
            self.board.tell(f"waiting for {', '.join(self.board.running)}, which runs already")

    def _reasons(self) -> str:
        told = "; ".join(f"{name} failed: {why}" for name, why in self.failed.items())
        return f"{told}; not started: {', '.join(self.left)}" if self.left else told


class Code:
    """The code that a run began with. A stage is not started if a file that it imports was edited since."""

    def __init__(self) -> None:
        self.closures, self.values = dependencies.stages(Path()), params.read()
        self.found: dict[str, set[str]] = {}
        self.seen: dict[str, tuple[int, int]] = {}

    def files(self, name: str) -> set[str]:
        """The files that a stage imports; none for a command that is no stage of the project."""
        if name not in self.found:
            section, _, key = name.partition("@")
            entry = (self.values.get(section) or {}).get(key) or {}
            stage = self.closures.get(section)
            self.found[name] = dependencies.runs(stage, entry, Path()) if stage else set()
            self.seen |= {file: _mark(file) for file in self.found[name] if file not in self.seen}
        return self.found[name]

    def modules(self, name: str) -> tuple[str, ...]:
        """What the stage imports, and may be imported before a fork."""
        every = closure.modules(sorted(self.files(name)), Path())
        return tuple(module for module in every if module.partition(":")[0].partition(".")[0] not in NEVER_AHEAD)

    def check(self, name: str) -> None:
        """Raises InputError if a file that the stage imports is not what it was."""
        for file in sorted(self.files(name)):
            if _mark(file) != self.seen[file]:
                raise InputError(f"{file} was edited while the graph ran; run again, with the code as it is now")


def _mark(file: str) -> tuple[int, int]:
    try:
        about = Path(file).stat()
    except FileNotFoundError:
        return 0, 0
    return about.st_mtime_ns, about.st_size


def log_of(name: str) -> Path:
    """Where a stage's lines are kept, until it runs again."""
    return LOGS / f"{name.replace('/', '-')}.log"


def _reason(status: int, log: Path) -> str:
    """Why a stage failed: its last line, or what ended it."""
    lines = last_lines(log)
    told = lines[-1] if lines else "it printed nothing"
    if status < 0:
        memory = "; the memory may not have sufficed" if status == -9 else ""
        return f"killed by signal {-status}{memory} (its last line: {told}; {log})"
    return f"{told} (exit status {status}; {log})"
