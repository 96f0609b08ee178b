"""The display of a run: a live line for each running stage on a terminal, plain lines elsewhere."""

import os
import sys
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pipelines.core.errors import printable
from pipelines.core.progress import say
from pipelines.core.stage import MARK

FAILED = "failed"
TAIL_BYTES = 1 << 16  # how much of a log's end is read for its last lines


@dataclass
class Shown:
    """A running stage: its log, the bytes read of it, and the seconds that the stage took the last time (`before`)."""

    log: Path
    before: float
    started: float = field(default_factory=time.monotonic)
    read: int = 0
    last: str = ""

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started


class Board:
    """The display of the running stages. `refresh` reads their logs."""

    def __init__(self) -> None:
        self.running: dict[str, Shown] = {}
        self.live: Any = None
        if sys.stderr.isatty() and not os.environ.get("BERTLINE_QUIET"):
            from rich.console import Console
            from rich.live import Live

            self.live = Live(console=Console(stderr=True), refresh_per_second=4, transient=True)

    def shown(self) -> AbstractContextManager[Any]:
        return self.live or nullcontext()

    def start(self, name: str, log: Path, before: float, node: str = "") -> None:
        """Show that a stage starts; `before` is the seconds that it took the last time, 0 if unknown."""
        self.running[name] = Shown(log, before)
        where = f" on {node}" if node else ""
        self._say(f"{name}: starts{where}{f', took {before:.0f} s the last time' if before else ''}")

    def end(self, name: str, how: str) -> float:
        """Print how a stage ended, marked if it failed; returns the seconds that it took."""
        self._read(name)
        seconds = self.running.pop(name).seconds
        self.tell(f"{how} after {seconds:.1f} s", f"{name}: ", failed=how == FAILED)
        return seconds

    def refresh(self) -> None:
        for name in self.running:
            self._read(name)
        if self.live:
            self.live.update(self._table())

    def tell(self, line: str, place: str = "", failed: bool = False) -> None:
        """Print a line that stays above the live display; that of a failure has a mark, which is red on a terminal."""
        mark = MARK if failed else ""
        if self.live:
            self.live.console.print(self._text(place, mark, line), highlight=False)
        else:
            say(f"{place}{mark}{line}")

    def line(self, name: str, line: str) -> None:
        """Show a line that a stage has printed."""
        self.running[name].last = line
        self._say(f"{name} | {line}")

    def _say(self, line: str) -> None:
        if not self.live:
            say(line)

    def _read(self, name: str) -> None:
        """Show the lines that the stage has printed since the last call."""
        shown = self.running[name]
        try:
            with shown.log.open("rb") as file:
                file.seek(shown.read)
                text = file.read()
        except FileNotFoundError:
            return
        whole = text[: text.rfind(b"\n") + 1]
        shown.read += len(whole)
        for line in whole.decode("utf-8", "replace").splitlines():
            if line.strip():
                self.line(name, printable(line, keep="\t"))

    def _text(self, place: str, mark: str, line: str) -> Any:
        from rich.text import Text

        return Text.assemble(place, (mark, "bold red"), line)

    def _table(self) -> Any:
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2), expand=True)
        for _ in range(2):
            table.add_column(no_wrap=True)
        table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
        for name, shown in self.running.items():
            remaining = f"{max(0.0, shown.before - shown.seconds):.0f} s left" if shown.before else ""
            table.add_row(Text(name, "bold"), Text(f"{shown.seconds:.0f} s {remaining}"), Text(shown.last, "dim"))
        return table


def last_lines(log: Path, count: int = 5) -> list[str]:
    """The last lines that a stage printed."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    return [printable(line, keep="\t") for line in lines if line.strip()][-count:]
