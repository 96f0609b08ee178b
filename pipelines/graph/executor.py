"""Run the graph (`bertline run`): stages in parallel under limits, each forked from a warm process.

The stage with the longest critical path, by the seconds of earlier runs, starts first. dvc.lock and the cache end as
`dvc repro` would leave them.
"""

import json
import math
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from pipelines.core import json_file, locks, paths
from pipelines.core.errors import InputError
from pipelines.core.progress import say
from pipelines.core.stage import unmarked
from pipelines.graph import dvc_steps, run_refusals
from pipelines.graph.code_snapshot import CodeSnapshot
from pipelines.graph.forkserver import Command, Ended, Started, WarmProcess
from pipelines.graph.local_resources import Limits
from pipelines.graph.on_ray import node_command
from pipelines.graph.on_ray.client import Lost, PlacedStages, Reserved, StageRefusal
from pipelines.graph.plan import Plan
from pipelines.graph.run_display import FAILED, Board, last_lines

LOGS, SECONDS_FILE = Path("state/logs"), Path("state/run/seconds.json")
TICK_SECONDS = 0.2
REST_SECONDS = 10.0  # before the first retry of a failed stage


class StageError(InputError):
    """Stages failed. `failed` maps each to its reason; `left` lists the stages that were not started."""

    def __init__(self, said: str, failed: dict[str, str], left: list[str]) -> None:
        super().__init__(said)
        self.failed, self.left = failed, left


def run(
    targets: Sequence[str] = (),
    jobs: int = 0,
    keep_going: bool = False,
    board: Board | None = None,
    locked: bool = False,
) -> list[str]:
    """Bring the graph, or `targets` and what they depend on, up to date; returns the stages that ran.

    Args:
        jobs: the most stages at the same time; 0 for as many as the limits allow.
        keep_going: after a failure, still run every stage that does not depend on the failed one.
        board: the display of the run; by default one on this terminal.
        locked: the caller already has the lock WORKSPACE. (If a process locks it twice, the first unlock frees both.)

    Raises:
        InputError: a stage failed (StageError). Stages that run at that time finish, and their results are kept.
    """
    with nullcontext() if locked else locks.claim_entry(*dvc_steps.WORKSPACE), dvc_steps.opened() as repo:
        with dvc_steps.locked(repo):
            plan = Plan.of(repo, targets)
            plan.code.write(repo)
        if not plan.affected:
            say(f"{len(plan.stages)} stages are up to date")
            return []
        affected = [plan.stages[name] for name in plan.affected]
        run_refusals.require_outs_within(repo, affected)
        with dvc_steps.writing(repo, affected):
            return Executor(repo, plan, jobs, keep_going, board or Board()).run()


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
        self.seconds: dict[str, float] = seconds()
        longest = self.plan.paths_to_end(self.seconds)
        self.left = sorted(self.plan.affected, key=lambda name: -longest[name])
        self.done = set(self.plan.stages) - set(self.left)
        self.code = CodeSnapshot()
        self.wanted = {name: self.code.resources(name) for name in self.left}
        here = [name for name in self.left if self.wanted[name].placement == "here"]
        self.warm = WarmProcess(dict.fromkeys(module for name in here for module in self.code.modules(name)))
        self.placed = PlacedStages()
        self.edited: dict[str, str] = {}  # stage -> which code of it was edited while it was imported
        self.tries: dict[str, int] = {}  # how often a stage has failed
        self.rests: dict[str, float] = {}  # failed stage -> when it may run again, on the monotonic clock

    def run(self) -> list[str]:
        LOGS.mkdir(parents=True, exist_ok=True)
        node_command.wait_for(self.left)
        with self.placed, self.warm, self.board.shown():
            while self.left or self._underway():
                self._start_all()
                if not self._underway() and not self._may_start(rested=False):
                    break
                for event in self._events():
                    self._take(event)
                self.board.refresh()
        if self.ran:
            with self._locked():
                dvc_steps.in_order(self.repo, list(self.plan.stages))
        if self.failed:
            raise StageError(self._reasons(), self.failed, self.left)
        return self.ran

    def _underway(self) -> list[str]:
        """The stages that run, or wait for a place on a Ray node."""
        return [*self.board.running, *self.placed.waiting]

    def _events(self) -> list[Any]:
        """Wait at most one tick, and return the events so far."""
        wait([pipe for pipe in (self.warm.pipe, self.placed.pipe) if pipe], TICK_SECONDS)
        try:
            return [*self.placed.events(), *self.warm.events(0)]
        except EOFError:
            names = ", ".join(self.board.running)
            raise InputError(f"the process that runs the stages was killed, and {names} with it; run again") from None

    def _take(self, event: Started | Ended | Reserved | Lost | StageRefusal) -> None:
        if isinstance(event, Ended):
            self._end(event)
        elif isinstance(event, Started):
            self._require_code(event.name)
        elif isinstance(event, Reserved):
            if event.name in self.placed.waiting:
                self._go(event.name, event.node)
        elif isinstance(event, Lost):
            if event.name in self.board.running:
                self.board.end(event.name, f"lost ({event.why})")
            if event.name in self.placed.waiting:
                self.board.tell(f"{event.name}: waits for another node")
        elif isinstance(event, StageRefusal):
            if event.name in self.board.running:
                self.board.end(event.name, FAILED)
            self._fail(event.name, event.why)

    def _require_code(self, name: str) -> None:
        """End a stage whose code was edited before the warm process had imported it; later edits do not reach it."""
        try:
            self.code.check(name)
        except InputError as error:
            self.edited[name] = str(error)
            self.warm.kill(name)

    def _may_start(self, rested: bool = True) -> list[str]:
        """The stages whose upstream is complete, most urgent first; `rested` leaves out those that await a retry."""
        if self.failed and not self.keep_going:
            return []
        now = time.monotonic() if rested else math.inf
        return [name for name in self.left if self.plan.upstream[name] <= self.done and self.rests.get(name, 0) <= now]

    def _start_all(self) -> None:
        """Start what the limits allow. If a stage has to wait for this machine, less urgent ones here wait too."""
        full = False
        while ready := [name for name in self._may_start() if not full or self.wanted[name].placement != "here"]:
            name = ready[0]
            if self.jobs and len(self._underway()) >= self.jobs:
                return
            environment = self.limits.take(name, self.wanted[name])
            if environment is None:
                full = True
                continue
            self.left.remove(name)
            if not self._begin_or_fail(name):
                self.limits.give_back(name)
            elif self.wanted[name].placement == "ray":
                self.board.tell(f"{name}: waits for a node")
                self.placed.reserve(name, self.wanted[name])
            else:
                self.warm.start(self._command(name, environment))
                self.board.start(name, log_of(name), self.seconds.get(name, 0.0))

    def _go(self, name: str, node: str) -> None:
        """Start a stage whose place on a Ray node is ready; first check again whether it has to run."""
        if not self._begin_or_fail(name):
            self.placed.drop(name)
            return
        command = self._command(name, {})
        Path(command.log).touch()
        self.placed.go(command)
        self.board.start(name, log_of(name), self.seconds.get(name, 0.0), node)

    def _begin_or_fail(self, name: str) -> bool:
        """The answer of `_begin`; an error fails the stage, and the answer is False."""
        try:
            return self._begin(name)
        except (InputError, OSError) as error:
            self._fail(name, str(error))
            return False

    def _begin(self, name: str) -> bool:
        """Begin a stage; return whether its command has to run."""
        stage = self.plan.stages[name]
        with dvc_steps.sentences(), self._locked():
            if name not in self.plan.stale and not stage.changed():
                self.done.add(name)
                return False
            self.code.check(name)
            if dvc_steps.begin(stage):
                return True
        self.done.add(name)
        self.ran.append(name)
        self.board.tell(f"{name}: taken from DVC's run-cache")
        return False

    def _locked(self) -> AbstractContextManager[None]:
        """Take DVC's lock, however long another command has it: a stage's result must not be lost for that."""
        return dvc_steps.locked(self.repo, without_limit=True, tell=self.board.tell)

    def _command(self, name: str, environment: dict[str, str]) -> Command:
        stage, log = self.plan.stages[name], log_of(name)
        line = stage.cmd if isinstance(stage.cmd, str) else " && ".join(stage.cmd)
        log.unlink(missing_ok=True)
        dvc_variables = {"DVC_STAGE": name, "DVC_ROOT": self.repo.root_dir}
        return Command(name, line, stage.wdir, str(log.resolve()), self.code.modules(name), environment | dvc_variables)

    def _end(self, event: Ended) -> None:
        name = event.name
        self.limits.give_back(name)
        if event.status or name in self.edited:
            self.board.end(name, FAILED)
            if name in self.edited or not self._again(name):
                self._fail(name, self.edited.get(name) or _reason(event.status, log_of(name)))
            return
        try:
            with dvc_steps.sentences(), self._locked():
                run_refusals.require_unedited(self.plan.stages[name])
                dvc_steps.finish(self.plan.stages[name])
        except (InputError, OSError) as error:
            self.board.end(name, FAILED)
            self._fail(name, str(error))
            return
        self.seconds[name] = round(self.board.end(name, "done"), 1)
        with paths.fresh_file(SECONDS_FILE) as aside:
            aside.write_text(json.dumps(self.seconds, indent=1) + "\n", encoding="utf-8")
        self.done.add(name)
        self.ran.append(name)

    def _again(self, name: str) -> bool:
        """Queue a failed stage again, and return whether it had retries left; the wait doubles with each retry."""
        failures = self.tries[name] = self.tries.get(name, 0) + 1
        if failures > self.wanted[name].retries:
            return False
        rest = REST_SECONDS * 2 ** (failures - 1)
        self.board.tell(f"{name}: runs again in {rest:g} s")
        self.rests[name] = time.monotonic() + rest
        self.left.insert(0, name)
        return True

    def _fail(self, name: str, why: str) -> None:
        """Record a failed stage. Without `keep_going`, give back the places of stages that have not begun."""
        self.failed[name] = why
        if not self.keep_going:
            for other in [waiting for waiting in self.placed.waiting if waiting != name]:  # not begun, so need not run
                self.placed.drop(other)
                self.left.append(other)
        if not self.keep_going and self.board.running:
            self.board.tell(f"waiting for {', '.join(self.board.running)} to end")

    def _reasons(self) -> str:
        failures = "; ".join(f"{name} failed: {why}" for name, why in self.failed.items())
        return f"{failures}; not started: {', '.join(self.left)}" if self.left else failures


def log_of(name: str) -> Path:
    """The log with a stage's output; the next run of the stage overwrites it."""
    return LOGS / f"{name.replace('/', '-')}.log"


def _reason(status: int, log: Path) -> str:
    """The reason why a stage failed: the last line of its log, or the signal that killed it."""
    lines = last_lines(log)
    last_line = unmarked(lines[-1]) if lines else "it printed nothing"
    if status < 0:
        memory = "; perhaps out of memory" if status == -9 else ""
        return f"killed by signal {-status}{memory} (its last line: {last_line}; {log})"
    return f"{last_line} (exit status {status}; {log})"


def seconds() -> dict[str, float]:
    """The seconds that each stage took in its last run. A damaged file counts as empty, and is written again."""
    seconds = json_file.cached(SECONDS_FILE)
    return {name: took for name, took in seconds.items() if type(took) in (int, float) and 0 <= took < math.inf}
