"""The view of a graph's run in Prefect's pages: each stage as a task run, with its state, its lines and its time."""

from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from prefect import task
from prefect.cache_policies import NO_CACHE
from prefect.futures import PrefectFuture
from prefect.logging import get_run_logger

from pipelines.core.errors import InputError
from pipelines.graph.run_display import Board

END = object()  # after the last line of a stage


@task(cache_policy=NO_CACHE, persist_result=False, retries=0)
def follow(lines: "SimpleQueue[Any]") -> None:
    """Log the lines of a stage as they come. Raises InputError if the stage fails."""
    logger, how = get_run_logger(), ""
    while (line := lines.get()) is not END:
        logger.info(how := line)
    if how != "done":
        raise InputError(how)


class TaskRuns(Board):
    """A board inside a flow: what it shows is in Prefect too."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: dict[str, SimpleQueue[Any]] = {}
        self.followed: list[PrefectFuture[Any]] = []

    def shown(self) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(super().shown())
        stack.callback(self._finish)
        return stack

    def start(self, name: str, log: Path, before: float, node: str = "") -> None:
        super().start(name, log, before, node)
        self.lines[name] = SimpleQueue()
        self.followed.append(follow.with_options(task_run_name=name).submit(self.lines[name]))

    def line(self, name: str, line: str) -> None:
        super().line(name, line)
        self.lines[name].put(line)

    def end(self, name: str, how: str) -> float:
        seconds = super().end(name, how)
        self._end(name, how)
        return seconds

    def _end(self, name: str, how: str) -> None:
        lines = self.lines.pop(name)
        lines.put(how)
        lines.put(END)

    def _finish(self) -> None:
        """Every task run ends; a stage that still ran was cut off with the run."""
        for name in list(self.lines):
            self._end(name, "cut off")
        for thread in self.followed:
            thread.wait()
