"""Times of day and zones: keys of score and of schedule."""

from typing import Annotated
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field


def _zone(name: str) -> str:
    if name not in available_timezones():  # ZoneInfo also opens posix/Asia/Tokyo, which Prefect refuses
        raise ValueError(f"no time zone {name!r}; write a name such as Asia/Tokyo")
    return name


Cron = Annotated[str, Field(pattern=r"^(\S+( \S+){4})?$")]  # five fields; `bertline up` checks their values
Zone = Annotated[str, AfterValidator(_zone)]
