"""Times of day and zones: keys of score and of schedule."""

from typing import Annotated
from zoneinfo import ZoneInfo

from pydantic import AfterValidator, Field


def _zone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (KeyError, OSError, ValueError) as error:  # no such zone, a folder of zones, or a path
        raise ValueError(f"no time zone {name!r}; write a name such as Asia/Tokyo") from error
    return name


Cron = Annotated[str, Field(pattern=r"^(\S+( \S+){4})?$")]  # five fields; `bertline up` checks their values
Zone = Annotated[str, AfterValidator(_zone)]
