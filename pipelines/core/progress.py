"""One line of progress with a rate and an ETA: a bar on a terminal, a plain line now and then elsewhere."""

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

PLAIN_SECONDS = 15.0  # between two lines of a log


class Advance(Protocol):
    def __call__(self, done: float, note: str = "") -> None: ...


def say(message: str) -> None:
    """A line for the person who watches; nothing with --quiet."""
    if not os.environ.get("BERTLINE_QUIET"):
        print(message, file=sys.stderr, flush=True)


@contextmanager
def progress(what: str, total: float, unit: str = "") -> Iterator[Advance]:
    """Call what it yields with the amount done so far, and a note such as the loss."""
    if os.environ.get("BERTLINE_QUIET"):
        yield lambda done, note="": None
    elif sys.stderr.isatty():
        yield from _bar(what, total, unit)
    else:
        yield from _lines(what, total, unit)


def _bar(what: str, total: float, unit: str) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TextColumn(unit), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True)) as bar:
        task = bar.add_task(what, total=total, note="")
        yield lambda done, note="": bar.update(task, completed=done, note=note)


def _lines(what: str, total: float, unit: str) -> Iterator[Advance]:
    start = last = time.monotonic()

    def advance(done: float, note: str = "") -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < PLAIN_SECONDS or not done:
            return
        last = now
        left = (now - start) * (total - done) / done
        say(f"{what}: {done:,.0f} of {total:,.0f} {unit} {note}, about {left:.0f} s left".replace("  ", " "))

    yield advance
