"""promote: the conditions under which a challenger becomes champion."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from pipelines.core.section import Fraction, Name, Positive, Section, Switch


class Promote(Section):
    """The conditions for a registered name. Challenger and champion are scored on the same rows in one run."""

    refers: ClassVar = {"run": ("finetune", "compress"), "beats": ("baseline",)}

    run: Name  # the run that retrain registers; its evaluate entry names the rows
    # dry_run measures and tells, and stops nothing; off does not even measure
    gate: Literal["enforce", "dry_run", "off"] = "enforce"
    at_least: Fraction = 0.0  # the lowest score that passes, in the task's metric
    beats: Name | bool = True  # a baseline that it must score above; true: every one of its task and split
    # against the champion: how much less it may score, and how sure that must be; a bootstrap over the rows says so
    may_lose: Fraction = 0.02
    confidence: Annotated[float, Field(ge=0.5, lt=1)] = 0.95
    at_tie: Literal["promote", "keep"] = "promote"  # of two that say the same of every row
    classes: dict[str, Fraction] = {}  # the lowest F1 of a label
    slices: dict[str, Fraction] = {}  # the lowest score of a slice that the evaluate entry names
    least_agreement: Fraction = 0.0  # the share of rows of which it says what the champion says
    max_size_mb: Positive | None = None  # of its weights, in 10^6 bytes
    max_p95_ms: Positive | None = None  # its latency for a row alone, on the machine of the gate
    max_latency_ratio: Positive | None = None  # its median latency divided by the champion's
    approval: Switch = False  # a person sets the tag `approved` of the version to `true` first

    @field_validator("gate", mode="before")
    @classmethod
    def _unquoted(cls, value: Any) -> Any:
        return "off" if value is False else value  # as YAML 1.1 reads the word
