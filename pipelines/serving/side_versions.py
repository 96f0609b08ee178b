"""Versions beside the one that answers: a canary answers a share of the requests, a shadow only reads along."""

import asyncio
import hashlib
import random
import statistics
import time
from collections import Counter, deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pipelines.core.errors import InputError
from pipelines.serving.admission import BusyError
from pipelines.serving.disagreements import Disagreements, differs
from pipelines.serving.replayed_share import TOLERANCE, LiveShare
from pipelines.serving.row_batcher import ModelError

if TYPE_CHECKING:
    from pipelines.serving.served_model import Answered, ServedModel

KEY, RANDOM = CHOSEN_BY = ("key", "random")
LEAST_FAILURES, FAILED_SHARE = 3, 0.05  # of the requests; fewer failures do not end a canary
COMPARED, LEAST_COMPARED = 100, 20  # requests of each version whose medians of seconds are compared
MOST_MIRRORED = 64  # requests that a shadow has not answered yet; more are left out


def chosen(share: float, by: str, key: str, salt: str) -> bool:
    """Return whether a request belongs to a share: at random, or by its API key, which then always or never does.

    A request without a key belongs to no share of keys.
    """
    if by == RANDOM:
        return random.random() < share
    digest = hashlib.sha256(f"{salt}\n{key}".encode()).digest()
    return bool(key) and int.from_bytes(digest[:8], "big") < share * 2**64


def kept(current: "ServedModel", new: "ServedModel") -> dict[str, Any]:
    """The canary and the shadow of a model that `new` replaces, but those that are this version or take other rows."""
    if current.version.name != new.version.name or not new.reads_rows_of(current):
        return {}
    beside: dict[str, Canary | Shadow | None] = {"canary": current.canary, "shadow": current.shadow}
    return {name: side for name, side in beside.items() if side and side.model.version != new.version}


class Canary:
    """A version that answers a share of the requests, until it errs or is slow.

    A request that it fails on is answered by the version beside it, so that no client sees the failure. If a replay is
    kept with it, the champion of that replay answers a copy of its requests too, and the answers are compared.
    """

    def __init__(self, model: "ServedModel", share: float, by: str, max_slowdown: float, end: "End") -> None:
        """`end` is called once, from the event loop; `max_slowdown` 0 is no limit."""
        self.model, self.share, self.by, self.max_slowdown = model, share, by, max_slowdown
        self.requests = self.failures = 0
        self._seconds: dict[bool, deque[float]] = {ours: deque(maxlen=COMPARED) for ours in (True, False)}
        self._end = end
        self._ended = False
        self.live = LiveShare.of(model.version)
        self._mirror: Shadow | None = None  # of the version beside it

    def takes(self, key: str) -> bool:
        return not self._ended and chosen(self.share, self.by, key, str(self.model.version))

    async def answer(self, other: "ServedModel", columns: dict[str, list[Any]], key: str) -> "Answered":
        """The answer of this version; that of `other` where this one fails."""
        start = time.perf_counter()
        self.requests += 1
        try:
            answered = await self.model.answer(columns, key)
        except BusyError:  # the other version may have room
            return await other.answer_alone(columns, key)
        except InputError:  # the request is wrong
            raise
        except asyncio.CancelledError:  # by a deadline, or a client that is gone; it took at least so long
            self._note_cancelled(time.perf_counter() - start)
            raise
        except Exception as error:  # of any type, as the runtime's own share no class
            answered = await other.answer_alone(columns, key)
            self._fail(error)
            return answered
        self.note(time.perf_counter() - start, ours=True)
        self._compare(other, columns, answered)
        return answered

    def _compare(self, other: "ServedModel", columns: dict[str, list[Any]], answered: "Answered") -> None:
        """Let `other` answer the same rows, beside the event loop's other work, if the replay was against it."""
        if not self.live or other.version.version != self.live.replayed.against:
            self._mirror = None  # the champion of the replay answers no more, and its memory is free
            return
        if not self._mirror or self._mirror.model is not other:
            self._mirror = Shadow(other, 1.0, None, self.live)
        self._mirror.mirror(columns, answered)

    def note(self, seconds: float, ours: bool) -> None:
        """Note the seconds of an answer of this version, or of the other one; ends the canary if it is too slow."""
        self._seconds[ours].append(seconds)
        new, old = self._seconds[True], self._seconds[False]
        if not (ours and self.max_slowdown) or min(len(new), len(old)) < LEAST_COMPARED:
            return
        ratio = statistics.median(new) / max(statistics.median(old), 1e-9)
        if ratio > self.max_slowdown:
            cause = f"took {ratio:.1f} times as long as the other version; {self.max_slowdown:g} are allowed"
            self.stop(cause, lasting=False)  # the machine may have had other work

    def _note_cancelled(self, seconds: float) -> None:
        """Note a request that was cut off, if the other version would have answered it by then."""
        old = self._seconds[False]
        if old and seconds > statistics.median(old):
            self.note(seconds, ours=True)

    def _fail(self, error: Exception) -> None:
        self.failures += 1
        if self.failures >= max(LEAST_FAILURES, FAILED_SHARE * self.requests):
            # the message of an error may quote a text of the request
            kind = str(error) if isinstance(error, ModelError) else type(error).__name__
            self.stop(f"failed in {self.failures} of {self.requests} requests ({kind})")

    def stop(self, cause: str, lasting: bool = True) -> None:
        """End this canary, once. `lasting`: its version would fail again unless its files change."""
        if not self._ended:
            self._ended = True
            self._end(self, cause, lasting)


End = Callable[[Canary, str, bool], None]  # a canary, and the arguments of its `stop`


class Shadow:
    """A version that gets a copy of a share of the requests; its answers are compared, and nobody sees them."""

    def __init__(
        self, model: "ServedModel", share: float, disagreements: Disagreements | None, live: LiveShare | None = None
    ) -> None:
        """`live` counts what is compared; by default that of the replay which is kept with the version, if any."""
        self.model, self.share, self.disagreements = model, share, disagreements
        self.live = live or LiveShare.of(model.version)
        self.rows: Counter[str] = Counter()  # by `agreed`, `differed`, `failed`, `skipped`
        self._running: set[asyncio.Task[None]] = set()

    def mirror(self, columns: dict[str, list[Any]], answered: "Answered") -> None:
        """Let this version answer the same rows, beside the event loop's other work; too many are left out."""
        if not chosen(self.share, RANDOM, "", ""):
            return
        count = len(answered.predictions)
        if len(self._running) >= MOST_MIRRORED:
            self.rows["skipped"] += count
            return
        answers = [dict(prediction) for prediction in answered.predictions]  # protocols change theirs
        task = asyncio.get_running_loop().create_task(self._compare(columns, answered.model, answers))
        self._running.add(task)  # the loop itself keeps weak references only
        task.add_done_callback(self._running.discard)

    async def _compare(
        self, columns: dict[str, list[Any]], other: "ServedModel", answers: list[dict[str, Any]]
    ) -> None:
        """Count the rows that this version answers as `other` did, and those that it does not."""
        try:
            predictions = await self.model.predict(columns)
        except InputError:  # its queue is full
            self.rows["skipped"] += len(answers)
            return
        except Exception:  # of any type; nobody waits for this answer
            self.rows["failed"] += len(answers)
            return
        kind, live = self.model.task.kind, self.live
        versions = {other.version.version, self.model.version.version}
        counted = live and versions == {live.version.version, live.replayed.against}
        for number, (theirs, ours) in enumerate(zip(answers, predictions, strict=True)):
            row = {name: values[number] for name, values in columns.items()}
            if live and counted:
                live.add(kind, row, theirs, ours)
            if not differs(kind, theirs, ours, TOLERANCE):
                self.rows["agreed"] += 1
                continue
            self.rows["differed"] += 1
            if self.disagreements:
                self.disagreements.add(other.version, self.model.version, row, theirs, ours)
        if self.disagreements:
            await self.disagreements.write_if_due()
