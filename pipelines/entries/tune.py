"""tune: the values that a search tries for a finetune entry."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from pipelines.core.section import Count, Name, Section, Switch


class Range(Section):
    """Numbers from `low` to `high`, drawn uniformly or, with `log`, log-uniformly; integers if both ends are."""

    low: float | int
    high: float | int
    log: Switch = False

    @model_validator(mode="after")
    def _rises(self) -> "Range":
        if self.low >= self.high or (self.log and self.low <= 0):
            raise ValueError(f"low {self.low} must be below high {self.high}, and above 0 if log is set")
        return self


class Tune(Section):
    """A search for the params of the finetune entry of the same name."""

    named_after: ClassVar = ("finetune",)

    search: Annotated[dict[str, Range | list[Any]], Field(min_length=1)]  # a key of finetune -> a range, or choices
    split: Name = "dev"  # trials are scored on it by the task's metric; it must not be the split of evaluate
    trials: Count = 20
    sampler: Literal["tpe", "random", "grid"] = "tpe"  # tpe: Bergstra et al. 2011; grid: every combination of choices
    seed: Annotated[int, Field(ge=0)] = 1
