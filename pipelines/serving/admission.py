"""A fair queue of rows that refuses requests when its rows need too long."""

import heapq
import itertools
import math
import time
from asyncio import Future
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from pipelines.core.errors import InputError
from pipelines.serving import request_work
from pipelines.serving.request_work import Work

WAIT_SECONDS = 5.0  # a request is refused if the requests before it need longer than this
# A request that was admitted, and then waits this many times WAIT_SECONDS as the model got slower, is refused: its
# client has most likely given up.
MAX_WAITS = 2
# With keys, the queue as a whole may need longer than WAIT_SECONDS. From this many times on, a key has one request in
# it at most: else many keys with little before them would fill it without end.
MAX_QUEUE_WAITS = 4


class BusyError(InputError):
    """The queue is full; `seconds` is when the request would be admitted."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        super().__init__(f"too many requests are waiting; try again in {math.ceil(seconds)} s")


class Predicted(NamedTuple):
    """One prediction for each row, and for each row whether the model read a part of it only, bool (R,)."""

    predictions: list[dict[str, object]]
    cut: np.ndarray


@dataclass(order=True)
class Part:
    """Rows of one request that run in one batch. Parts are ordered by `tag`, then by arrival."""

    tag: float
    number: int
    rows: pa.RecordBatch = field(compare=False)
    cost: int = field(compare=False)  # see row_batcher.costs
    answer: Future[Predicted] = field(compare=False)
    work: Work | None = field(compare=False, default=None)  # of its request, for the log
    latest: float = field(compare=False, default=math.inf)  # when it has to begin, on the monotonic clock
    key: str = field(compare=False, default="")
    taken: bool = field(compare=False, default=False)


class FairQueue:
    """Parts in the order of start-time fair queueing (Goyal et al. 1996), so that no request delays all others.

    The rows of a long request are spread behind rows that arrive later. Requests with the same key share one place in
    the order, so a key that sends more than others waits longer.
    """

    def __init__(self, rate: float, wait_seconds: float = WAIT_SECONDS) -> None:
        self.rate = rate  # the cost that all workers run in a second
        self.wait_seconds = wait_seconds
        self.waiting = 0  # the cost of all parts in the queue
        self._parts: list[Part] = []
        self._numbers = itertools.count()
        self._now = 0.0  # the tag of the part that was taken last
        self._ends: dict[str, float] = {}  # key -> the tag after its last part

    def __len__(self) -> int:
        return len(self._parts)

    def admit(self, key: str = "") -> None:
        """Raise BusyError if what runs before a new request of `key` needs longer than `wait_seconds`.

        So a key that fills the queue is refused, and others are admitted. If the queue needs MAX_QUEUE_WAITS times as
        long, a key has one request in it at most. Requests without a key wait for all parts in the queue.
        """
        seconds = self.waiting / self.rate
        if seconds <= self.wait_seconds:
            return
        if key:
            tag = self._tag(key)
            before = sum(part.cost for part in self._parts if part.tag <= tag) / self.rate
            is_waiting = any(part.key == key and part.cost for part in self._parts)
            seconds = max(before, seconds - (MAX_QUEUE_WAITS - 1) * self.wait_seconds) if is_waiting else before
        if seconds > self.wait_seconds:
            raise BusyError(seconds - self.wait_seconds)

    def _tag(self, key: str) -> float:
        """The tag of the first part of a new request."""
        return max(self._now, self._ends.get(key, 0.0)) if key else self._now

    def put(self, rows: list[pa.RecordBatch], costs: list[int], answers: list[Future[Any]], key: str = "") -> None:
        """Add the parts of one request."""
        tag = self._tag(key)
        if work := request_work.current():
            work.wait()
        latest = time.monotonic() + MAX_WAITS * self.wait_seconds
        for batch, cost, answer in zip(rows, costs, answers, strict=True):
            part = Part(tag, next(self._numbers), batch, cost, answer, work, latest, key)
            heapq.heappush(self._parts, part)
            answer.add_done_callback(partial(self._left, part))
            latest = math.inf  # a request that has begun is finished
            tag += cost
            self.waiting += cost
        if key:
            self._ends = {name: end for name, end in self._ends.items() if end > self._now} | {key: tag}

    def _left(self, part: Part, answer: Future[Any]) -> None:
        """Free the place of a part whose client is gone, so that others are admitted."""
        if answer.cancelled() and not part.taken:
            self.waiting -= part.cost
            self._give_back(part)
            part.cost = 0

    def _give_back(self, part: Part) -> None:
        """Charge a key nothing for a part that does not run, so that its next requests do not wait for it."""
        if part.key in self._ends:
            self._ends[part.key] -= part.cost

    def take(self, budget: int) -> list[Part]:
        """Remove the next parts: at least one, then as many as fit in `budget`.

        Parts without a client are dropped, and requests that have waited far too long are refused.
        """
        taken: list[Part] = []
        now = time.monotonic()
        while self._parts and (not taken or self._parts[0].cost <= budget):
            part = heapq.heappop(self._parts)
            part.taken = True
            self.waiting -= part.cost
            self._now = max(self._now, part.tag)
            if part.answer.done():  # a client that hung up, or whose deadline passed, has cancelled it
                self._give_back(part)
            elif now > part.latest:
                self._give_back(part)
                part.answer.set_exception(BusyError(max(1.0, self.waiting / self.rate - self.wait_seconds)))
            else:
                taken.append(part)
                budget -= part.cost
        return taken


class Speed:
    """The cost that all workers run in a second: a moving average over the last seconds of work."""

    def __init__(self, workers: int, half_life: float = 2.0) -> None:
        self.workers, self.half_life = workers, half_life
        self._cost = self._seconds = 0.0
        self._last = time.monotonic()

    def add(self, cost: int, seconds: float) -> float:
        """Count one batch, which one worker ran in `seconds`; returns the new average."""
        now = time.monotonic()
        keep = 0.5 ** ((now - self._last) / self.half_life)
        self._last = now
        self._cost = keep * self._cost + cost
        self._seconds = keep * self._seconds + seconds
        return self.workers * self._cost / max(self._seconds, 1e-6)
