"""Scorers of a job's partitions on a Ray cluster: actors score on its nodes. Only this process publishes and records.

An actor or a node that dies loses nothing but temporary files; its partition is scored again by another actor.
"""

import tempfile
import time
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pipelines.core import provenance
from pipelines.core.errors import InputError, one_line
from pipelines.scoring import durable, job_record
from pipelines.scoring.node_scorer import SHARE, THREADS, NodeScorer, Other, PartitionParts
from pipelines.scoring.partition_scoring import ScoredPartition
from pipelines.scoring.partitions import Partition
from pipelines.scoring.scoring_work import MAX_DEATHS, POLL_SECONDS, WAITING, Results, Rows, Work
from pipelines.training import workers

LOOK_SECONDS = 2  # between two counts of the cluster's CPUs
LEAVING_SECONDS = 10
ASIDE = "progress"  # the concurrency group of the calls that an actor answers while it scores
NONE = -1  # instead of the number of a partition: the actor had not begun


def takes(work: Work) -> bool:
    """Return whether a job is scored on a cluster: RAY_ADDRESS names one, and there are partitions to divide.

    Answers of an earlier job are in files of this machine, so a job that takes them over stays here.
    """
    return len(work.todo) > 1 and not work.job.since and workers.address() != "local"


def scored(work: Work, most: int, advance: Rows) -> Results:
    """Score partitions on the cluster in RAY_ADDRESS, by an actor for each of its CPUs, or `most` of them if not 0.

    Raises InputError if a node does not see the rows or the model, or actors die again and again.
    """
    workers.start(log_to_driver=False)
    actors = _Actors(work, most)
    try:
        while left := actors.left():
            actors.start()
            actors.assign()
            for number, result in actors.results():
                yield work.todo[number], result
            actors.look()
            begun = sum(actor.begins is None for actor in actors.running)
            note = f"{left:,} partitions to go, {begun:,} processes" if begun else "waiting for a CPU of the cluster"
            advance(sum(actors.rows), note)
    finally:
        actors.stop()


@dataclass
class _Actor:
    """An actor on a node.

    Attributes:
        begins: Ray's reference to the answer of `begin`; None when it has begun.
        pending: references to the answers for partitions, and their numbers; the first is the one that is scored.
        progress: Ray's reference to its progress; None if it was not asked for.
    """

    handle: Any
    begins: Any
    pending: deque[tuple[Any, int]] = field(default_factory=deque)
    progress: Any = None

    def next_answer(self) -> Any:
        """The reference to the answer that comes next; None if none is pending."""
        if self.begins is not None:
            return self.begins
        return self.pending[0][0] if self.pending else None


class _Actors:
    """The actors of a job, and the partitions that wait for them; `rows` are those scored so far of each partition."""

    def __init__(self, work: Work, most: int) -> None:
        import ray

        self.work, self.most = work, most
        self.waiting, self.rows = deque(range(len(work.todo))), [0] * len(work.todo)
        self.running: list[_Actor] = []
        self.deaths = Counter[int]()  # by partition
        self.room, self.counted = 1, -1.0 * LOOK_SECONDS
        options: dict[str, Any] = {"num_cpus": THREADS, "max_restarts": 0, "concurrency_groups": {ASIDE: 1}}
        self.remote: Any = ray.remote(**options)(NodeScorer)
        self.job = replace(work.job, partitions=[])

    def left(self) -> int:
        """The number of partitions that are not finished."""
        return len(self.waiting) + sum(len(actor.pending) for actor in self.running)

    def start(self) -> None:
        """Start as many actors as the cluster has room for, at most one for each partition that waits."""
        import ray

        now = time.monotonic()
        if now - self.counted >= LOOK_SECONDS:
            cpus = int(ray.cluster_resources().get("CPU", 0)) // THREADS
            self.room, self.counted = max(1, min(cpus, self.most or cpus)), now
        idle = sum(not actor.pending for actor in self.running)
        for _ in range(min(self.room - len(self.running), len(self.waiting) - idle)):
            handle = self.remote.remote(self.job, self.work.folder.resolve(), self.work.target.path)
            self.running.append(_Actor(handle, handle.begin.remote()))

    def assign(self) -> None:
        """Send partitions to the actors that have begun: one to each, then a second while many wait."""
        for count in range(WAITING):
            for actor in self.running:
                if not self.waiting or (count and len(self.waiting) <= len(self.running)):
                    return
                if actor.begins is None and len(actor.pending) <= count:
                    number = self.waiting.popleft()
                    actor.pending.append((actor.handle.score.remote(number, self.work.todo[number]), number))

    def results(self) -> Iterator[tuple[int, ScoredPartition | None]]:
        """Wait for a moment; the partitions that were finished, by number."""
        import ray

        awaited = {answer: actor for actor in self.running if (answer := actor.next_answer()) is not None}
        if not awaited:
            time.sleep(POLL_SECONDS)
            return
        ready, others = ray.wait(list(awaited), num_returns=1, timeout=POLL_SECONDS)
        if ready and others:
            ready += ray.wait(others, num_returns=len(others), timeout=0)[0]
        for reference in ready:
            actor = awaited[reference]
            try:
                answer = ray.get(reference)
                if actor.begins is not None:
                    self._begun(actor, answer)
                    continue
                number = actor.pending[0][1]
                result = self._result(number, answer)
            except ray.exceptions.RayTaskError:
                raise  # a bug
            except ray.exceptions.RayError as error:
                self._lose(actor, error)
                continue
            actor.pending.popleft()
            self.rows[number] = self.work.todo[number].rows
            yield number, result

    def _begun(self, actor: _Actor, problem: str) -> None:
        if problem:
            raise InputError(problem)
        actor.begins, self.deaths[NONE] = None, 0

    def _result(self, number: int, answer: PartitionParts | Other | str) -> ScoredPartition | None:
        """A partition that a node has scored, in files of this machine; None if the partition changed meanwhile."""
        planned, target = self.work.todo[number], self.work.target
        if isinstance(answer, str):
            raise InputError(answer)
        if isinstance(answer, Other):
            partition = Partition(planned.name, self.work.source)
            if job_record.is_changed(planned, partition):
                return None
            raise InputError(f"{partition.path}: the node {answer.node} sees another file there, or none; {SHARE}")
        with durable.written(target.path / answer.entry["output"]):
            place = Path(tempfile.mkdtemp(dir=self.work.aside))
            result = ScoredPartition(answer.entry, place / "rows.parquet", place / "bad.jsonl", place / "states.arrow")
            _write(result.rows_file, answer.rows)
            _write(result.bad_file, answer.bad)
            if answer.states:
                _write(result.states_file, answer.states)
        assert provenance.sha256(result.rows_file) == answer.entry["output_digest"], f"{planned.name}: other bytes"
        return result

    def _lose(self, actor: _Actor, error: Exception) -> None:
        """Let other actors score the partitions of one that died. Raises InputError if that happens again and again."""
        import ray

        self.running.remove(actor)
        ray.kill(actor.handle)  # it may only be out of reach
        numbers = [number for _, number in actor.pending]
        for number in numbers:
            self.rows[number] = 0
        self.waiting.extendleft(reversed(numbers))
        first = numbers[0] if numbers else NONE
        self.deaths[first] += 1
        if self.deaths[first] >= (MAX_DEATHS if numbers else MAX_DEATHS * self.room):
            doing = f"scored {self.work.todo[first].name}" if numbers else "opened the model"
            raise InputError(
                f"{self.work.target}: processes on the cluster died {self.deaths[first]} times in a row while they "
                f"{doing} ({one_line(error, 400)}); what is finished stays, run the job again when that is mended"
            )

    def look(self) -> None:
        """Ask the actors for their progress, without waiting for the answers."""
        import ray

        for actor in self.running:
            if actor.pending and actor.progress is None:
                actor.progress = actor.handle.progress.options(concurrency_group=ASIDE).remote()
        by_reference = {actor.progress: actor for actor in self.running if actor.progress is not None}
        ready = ray.wait(list(by_reference), num_returns=len(by_reference), timeout=0)[0] if by_reference else []
        for reference in ready:
            actor = by_reference[reference]
            actor.progress = None
            with suppress(ray.exceptions.RayError):  # `results` meets it too
                number, rows = ray.get(reference)
                if number in (pending for _, pending in actor.pending):
                    self.rows[number] = rows

    def stop(self) -> None:
        """End all actors: at their next piece of rows, or by force if that takes long."""
        import ray

        with suppress(ray.exceptions.RayError):
            begun = [actor.handle for actor in self.running if actor.begins is None]
            ends = [handle.stop.options(concurrency_group=ASIDE).remote() for handle in begun]
            if ends:
                ray.wait(ends, num_returns=len(ends), timeout=LEAVING_SECONDS)
            for actor in self.running:
                ray.kill(actor.handle)


def _write(file: Path, parts: list[Any]) -> None:
    """Write a file from its parts: bytes, or references to them in the memory of a node."""
    import ray

    with file.open("wb") as opened:
        for part in parts:
            opened.write(part if isinstance(part, bytes) else ray.get(part))
