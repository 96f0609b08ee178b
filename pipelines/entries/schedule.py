"""schedule: a flow that runs at set times, or when somebody asks for it."""

from typing import ClassVar, Literal, Self

from pydantic import model_validator

from pipelines.core.section import Name, Section
from pipelines.entries.parts.clock import Cron, Zone
from pipelines.entries.parts.prefix import Prefix

ARGUMENTS = {  # flow -> the keys that it needs, and those that it may have
    "retrain": ((), ("model",)),
    "promote": (("model",), ()),
    "score": (("model", "source", "target"), ("prefix",)),
    "score-folder": (("model", "source", "target"), ("prefix",)),
    "new-data": ((), ()),
}


class Schedule(Section):
    """A deployment of your own, FLOW/NAME: `bertline up` registers it, and its worker runs it.

    With the name of a deployment in prefect.yaml it takes that one's place, but for the events that start it.
    """

    refers: ClassVar = {"model": ("promote",)}

    flow: Literal["retrain", "promote", "score", "score-folder", "new-data"]
    cron: Cron = ""  # when; "": only by `bertline trigger`
    timezone: Zone = "UTC"
    model: Name | Literal[""] = ""  # retrain: only this one
    source: str = ""  # score: a Parquet file; score-folder: a folder
    target: str = ""
    prefix: Prefix = ""  # of the columns that are added

    @model_validator(mode="after")
    def _fitting(self) -> Self:
        needed, possible = ARGUMENTS[self.flow]
        lacking = [key for key in needed if not getattr(self, key)]
        if lacking:
            raise ValueError(f"{self.flow} needs {', '.join(lacking)} too")
        others = [key for key in ("model", "source", "target", "prefix") if key not in (*needed, *possible)]
        if unfit := [key for key in others if getattr(self, key)]:
            raise ValueError(f"{self.flow} does not take {', '.join(unfit)}; remove it")
        return self
