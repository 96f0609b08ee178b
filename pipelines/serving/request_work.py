"""The work of one request, noted while it is done: for its line in the log."""

import time
from contextvars import ContextVar
from dataclasses import dataclass, field


@dataclass
class Work:
    """The numbers of one request. It holds no text of it."""

    model: str = ""
    version: int | None = None
    rows: int = 0
    tokens: int = 0  # of all sequences that the model read
    cause: str = ""  # the reason of a refusal, where the status does not say it
    arrived: float = field(default_factory=time.perf_counter)  # when its rows began to wait
    began: float | None = None  # when its first row ran
    ended: float | None = None  # when its last row had run

    def wait(self) -> None:
        self.arrived = time.perf_counter()

    def run(self, tokens: int, began: float, ended: float) -> None:
        """Note a batch with rows of this request."""
        self.tokens += tokens
        self.began = began if self.began is None else min(self.began, began)
        self.ended = ended if self.ended is None else max(self.ended, ended)

    def milliseconds(self) -> tuple[float | None, float | None]:
        """The time in the queue and the time in the model; None if its rows did not run."""
        if self.began is None or self.ended is None:
            return None, None
        return round((self.began - self.arrived) * 1000, 2), round((self.ended - self.began) * 1000, 2)


_CURRENT: ContextVar[Work | None] = ContextVar("work", default=None)


def begin() -> Work:
    """The record of the request that this task answers."""
    work = Work()
    _CURRENT.set(work)
    return work


def current() -> Work | None:
    """The record of the request that this task answers; None if nobody asked for one."""
    return _CURRENT.get()


def note(model: str, version: int, rows: int) -> None:
    """Note the model that answers, and the rows of the request."""
    if work := current():
        work.model, work.version, work.rows = model, version, rows


def refuse(cause: str) -> None:
    """Note the cause of a refusal, in a few words of this project: no word of the request."""
    if work := current():
        work.cause = cause
