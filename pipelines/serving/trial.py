"""The trial of a version that has just been swapped in: if its answers fail, the former version answers again."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from pipelines.serving.row_batcher import ModelError

if TYPE_CHECKING:
    from pipelines.serving.served_model import ServedModel

SECONDS = 60.0  # that the former version stays open
LEAST_FAILURES = 3
SHARE = 0.05  # of the requests; fewer failures do not end a trial


class Trial:
    """The first requests of a new version, counted while the former one is still open.

    A request that fails is answered by the former version, so no client sees the failure. Only a request that the
    former version answers counts as a failure of the new one.
    """

    def __init__(self, former: "ServedModel", go_back: Callable[["Trial", str], None]) -> None:
        """`go_back` is called once, from the event loop, with the trial and the cause."""
        self.requests = self.failures = 0
        self.failed = False
        self._former: ServedModel | None = former
        self._go_back = go_back
        self._ends = time.monotonic() + SECONDS

    def former_or_end(self) -> "ServedModel | None":
        """Return the version to answer instead; end the trial, and return None, if its time is over.

        A version that failed stays on trial.
        """
        self.end_if_over()
        return self._former

    def end_if_over(self) -> None:
        """Let go of the former version, and of its memory, if the time is over."""
        if not self.failed and time.monotonic() > self._ends:
            self._former = None

    def count(self, error: Exception) -> None:
        """Count a failure, and end the trial if there were too many."""
        self.failures += 1
        if not self.failed and self.failures >= max(LEAST_FAILURES, SHARE * self.requests):
            self.failed = True
            # the message of an error may quote a text of the request
            kind = str(error) if isinstance(error, ModelError) else type(error).__name__
            self._go_back(self, f"failed in {self.failures} of its first {self.requests} requests ({kind})")
