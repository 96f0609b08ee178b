"""Windows of time in UTC (an hour, a day, or a week from Monday), and those that a scheduled run must process."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Literal

from pipelines.core.errors import UsageError

Every = Literal["hour", "day", "week"]
CatchUp = Literal["skip", "latest", "all"]
LENGTH = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(weeks=1)}
MONDAY = datetime(1970, 1, 5, tzinfo=UTC)  # windows are counted from here


@dataclass(frozen=True, order=True)
class Window:
    """The time from `begin` (included) to `begin` plus its length (excluded)."""

    begin: datetime
    every: Every

    @classmethod
    def at(cls, time: datetime, every: Every) -> "Window":
        """The window that `time` lies in."""
        length = LENGTH[every]
        return cls(MONDAY + (time.astimezone(UTC) - MONDAY) // length * length, every)

    @classmethod
    def named(cls, name: str, every: Every) -> "Window":
        """The window that contains the ISO date or time `name`. Raises UsageError if there is none."""
        try:
            time = datetime.fromisoformat(name)
        except ValueError:
            raise UsageError(f"{name}: not a time; write 2026-11-23, or 2026-11-23T09 for an hour") from None
        try:
            window = cls.at(time if time.tzinfo else time.replace(tzinfo=UTC), every)
            return cls(window.end - LENGTH[every], every)
        except OverflowError:
            raise UsageError(f"{name}: the {every} is not entirely within the years 1 to 9999") from None

    @property
    def name(self) -> str:
        return self.begin.strftime("%Y-%m-%dT%H" if self.every == "hour" else "%Y-%m-%d")

    @property
    def end(self) -> datetime:
        return self.begin + LENGTH[self.every]

    def before(self) -> "Window":
        return Window(self.begin - LENGTH[self.every], self.every)

    def path(self, pattern: str) -> str:
        """The path of the window's file: `pattern` with {window} replaced by the window's name."""
        return pattern.replace("{window}", self.name)


def between(first: Window, last: Window) -> list[Window]:
    """All windows from the first to the last; none if the last is before the first."""
    length = LENGTH[first.every]
    count = (last.begin - first.begin) // length + 1
    return [Window(first.begin + number * length, first.every) for number in range(count)]


def due(first: Window, policy: CatchUp, scheduled: datetime, now: datetime) -> list[Window]:
    """The windows that a run must process, oldest first; all of them have ended, and none is before `first`.

    Args:
        policy: the treatment of windows whose run did not start in time. `skip`: a run does nothing if the window after
            its own has already ended. `latest`: a run processes the newest window that has ended. `all`: a run
            processes all windows that have ended; for a window that is already done it only checks that.
        scheduled: the time at which the run should have started.
    """
    newest = Window.at(now, first.every).before()
    if policy == "all":
        return between(first, newest)
    scheduled_window = Window.at(min(scheduled, now), first.every).before()
    if newest < first or (policy == "skip" and scheduled_window != newest):
        return []
    return [newest]
