"""score: the file of rows for each window of time, and the file for the champion's answers."""

from datetime import date
from os.path import normpath
from typing import Annotated, ClassVar, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from pipelines.core.section import Name, Section
from pipelines.entries.parts.clock import Cron
from pipelines.entries.parts.prefix import Prefix

PLACE = "{window}"


def _with_window(path: str) -> str:
    rest = path.replace(PLACE, "")
    if PLACE not in path or "{" in rest or "}" in rest:
        raise ValueError(f"{path!r} must have {PLACE} in it, and no other braces")
    return path


Pattern = Annotated[str, AfterValidator(_with_window)]


class Score(Section):
    """A scoring job: the rows of each window are scored once, after the window has ended. Windows are in UTC."""

    refers: ClassVar = {"model": ("promote",)}

    model: Name
    source: Pattern  # such as incoming/{window}.parquet; {window} is 2026-11-23, or 2026-11-23T09 for an hour
    target: Pattern
    every: Literal["hour", "day", "week"] = "day"  # a week is named by its Monday
    since: Annotated[date, Field(strict=False, ge=date(1970, 1, 5))]  # the first window; weeks are counted from there
    # windows whose run did not take place: skip leaves them unscored, latest scores the latest, all scores all
    catch_up: Literal["skip", "latest", "all"] = "latest"
    cron: Cron = ""  # when to score, in UTC; "": after each window, as prefect.yaml says
    prefix: Prefix = ""

    @model_validator(mode="after")
    def _has_its_own_target(self) -> Self:
        if normpath(self.source) == normpath(self.target):
            raise ValueError(f"source and target are both {self.target!r}; answers need another file")
        return self
