"""The changes of a catalogue by requests: a thread makes one after the other, and ends with its process."""

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any


class ChangeQueue(Executor):
    """One thread, so that changes take none from the threads that parse requests.

    Python waits for the threads of a ThreadPoolExecutor before a process ends, and a registry may take minutes to
    answer a change. It does not wait for this one.
    """

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._lock, self._closed = threading.Lock(), False
        self._thread: threading.Thread | None = None  # from the first change on

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Make a change in its turn. Raises RuntimeError after `shutdown`."""
        result: Future[Any] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError("the service ends; it takes no change")
            self._waiting.put((result, partial(fn, *args, **kwargs)))
            if not self._thread:
                self._thread = threading.Thread(target=self._work, name="changes", daemon=True)
                self._thread.start()
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End the thread after the changes that wait, or after the present one if `cancel_futures`."""
        with self._lock:
            self._closed = True
            if cancel_futures:
                self._cancel()
            self._waiting.put(None)
        if wait and self._thread:
            self._thread.join()

    def _cancel(self) -> None:
        try:
            while change := self._waiting.get_nowait():
                change[0].cancel()
        except Empty:
            return

    def _work(self) -> None:
        while change := self._waiting.get():
            result, work = change
            if not result.set_running_or_notify_cancel():
                continue
            try:
                made = work()
            except BaseException as error:  # of any type: it goes to the request, and the thread goes on
                result.set_exception(error)
            else:
                result.set_result(made)
