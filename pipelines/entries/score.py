"""score: a file of rows for each window of time, and the file that the champion's answers go to."""

from datetime import date
from typing import Annotated, ClassVar, Literal

from pydantic import AfterValidator, Field

from pipelines.core.section import Name, Section

PLACE = "{window}"


def _with_window(path: str) -> str:
    rest = path.replace(PLACE, "")
    if PLACE not in path or "{" in rest or "}" in rest:
        raise ValueError(f"{path!r} must have {PLACE} in it, and no other braces")
    return path


Pattern = Annotated[str, AfterValidator(_with_window)]


class Score(Section):
    """A scoring job: each window's rows are scored once, when the window has ended. Windows are in UTC."""

    refers: ClassVar = {"model": ("promote",)}

    model: Name
    source: Pattern  # such as incoming/{window}.parquet; {window} is 2026-11-23, or 2026-11-23T09 of an hour
    target: Pattern
    every: Literal["hour", "day", "week"] = "day"  # a week has the name of its Monday
    since: Annotated[date, Field(strict=False, ge=date(1970, 1, 5))]  # the first window; weeks are counted from there
    # what becomes of windows whose run did not take place: they stay unscored, or the latest is scored, or all are
    catch_up: Literal["skip", "latest", "all"] = "latest"
    prefix: str = ""
