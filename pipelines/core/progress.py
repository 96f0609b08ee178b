"""Progress with a rate and the time left: a bar on a terminal, a plain line every few seconds elsewhere."""

import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from pipelines.core.errors import printable

PLAIN_SECONDS = 15.0  # seconds between two lines of a log
_LOCK = threading.Lock()
_BARS: list[Any] = []  # [the terminal's display, the number of its bars]; empty while there is no bar


class Advance(Protocol):
    def __call__(self, done: float, note: str = "") -> None: ...


def say(message: str) -> None:
    """Print a line for the user to stderr; with --quiet nothing."""
    if not os.environ.get("BERTLINE_QUIET"):
        sys.stderr.write(printable(message, keep="\n\t") + "\n")  # at once: threads write lines of requests there too
        sys.stderr.flush()


@contextmanager
def progress(what: str, total: float, unit: str = "", before: float = 0) -> Iterator[Advance]:
    """Yield a function that takes the amount done so far and a note, such as the loss. Threads may show bars together.

    `before` is the amount that an interrupted run did earlier; it does not count in the rate.
    """
    if os.environ.get("BERTLINE_QUIET"):
        yield lambda done, note="": None
    elif sys.stderr.isatty():
        yield from _bar(what, total, unit, before)
    else:
        yield from _lines(what, total, unit, before)


def _bar(what: str, total: float, unit: str, before: float) -> Iterator[Advance]:
    with _LOCK:
        if not _BARS:
            _BARS.extend([_display(), 0])
            _BARS[0].start()
        _BARS[1] += 1
        display = _BARS[0]
    task = display.add_task(what, total=total, completed=before, unit=unit, note="")
    try:
        yield lambda done, note="": display.update(task, completed=done, note=note)
    finally:
        with _LOCK:
            _BARS[1] -= 1
            if not _BARS[1]:
                display.stop()
                _BARS.clear()


def _display() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed:,.1f}/s" if task.speed else "")

    amount = TextColumn("{task.completed:,.0f}/{task.total:,.0f} {task.fields[unit]}")
    note = TextColumn("{task.fields[note]}")
    columns = (TextColumn("{task.description}"), BarColumn(), amount, Rate(), TimeRemainingColumn(), note)
    return Progress(*columns, console=Console(stderr=True))


def _lines(what: str, total: float, unit: str, before: float) -> Iterator[Advance]:
    start = last = time.monotonic()

    def advance(done: float, note: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < PLAIN_SECONDS or done <= before:
            return
        last = now
        rate = (done - before) / (now - start)
        ahead = (total - done) / rate
        say(
            f"{what}: {done:,.0f} of {total:,.0f} {unit} {note}, {rate:,.1f}/s, about {ahead:.0f} s left".replace(
                "  ", " "
            )
        )

    yield advance
