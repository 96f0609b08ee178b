"""promote: the conditions under which a challenger becomes the champion."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from pipelines.core.section import Fraction, Name, Positive, Section, Switch


class Promote(Section):
    """The conditions for a registered name. Challenger and champion are scored on the same rows in one run."""

    refers: ClassVar = {"run": ("finetune", "compress"), "beats": ("baseline",)}

    run: Name  # the run that `retrain` registers; its evaluate entry names the rows to score
    # dry_run measures and reports, but refuses nothing; off does not measure
    gate: Literal["enforce", "dry_run", "off"] = "enforce"
    at_least: Fraction = 0.0  # the lowest score that passes, in the task's metric
    beats: Name | bool = True  # a baseline to score above; true: every baseline of the same task and split
    # how much lower than the champion it may score, and the confidence of that, from a bootstrap over the rows
    may_lose: Fraction = 0.02
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    at_tie: Literal["promote", "keep"] = "promote"  # if it and the champion give the same answer for every row
    classes: dict[str, Fraction] = {}  # the lowest F1 of a label
    slices: dict[str, Fraction] = {}  # the lowest score of a slice, which the evaluate entry may define
    least_agreement: Fraction = 0.0  # the lowest share of rows for which it and the champion give the same answer
    # the largest share of stored requests that it may answer otherwise, and the difference of a number that counts
    max_changed: Fraction | None = None
    replay_days: Annotated[int, Field(ge=1, le=36_500)] = 7  # the requests of so many days are answered again
    tolerance: Annotated[float, Field(ge=0)] = 0.1
    max_size_mb: Positive | None = None  # size of its weights, in 10^6 bytes
    max_p95_ms: Positive | None = None  # its 95th percentile latency for one row, on the machine that runs the gate
    max_latency_ratio: Positive | None = None  # its median latency divided by the champion's
    approval: Switch = False  # whether a person must first set the tag `approved` of the version to `true`
    # for the model card: what the model is for, and its licence as Hugging Face names it, such as apache-2.0
    intended_use: str = ""
    licence: str = ""

    @field_validator("gate", mode="before")
    @classmethod
    def _unquoted(cls, value: Any) -> Any:
        return "off" if value is False else value  # YAML 1.1 reads `off` as false
