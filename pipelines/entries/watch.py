"""watch: the limits above which windows of a scoring job count as drift."""

from typing import Annotated, ClassVar, Self

from pydantic import Field, model_validator

from pipelines.core.section import Count, Section

Limit = Annotated[float, Field(ge=0, le=1)]


class Watch(Section):
    """The rules by which scored windows have drifted from their model's profile.

    The windows are those of the score entry of the same name. A statistic has drifted if it is above its limit, and
    above the value that chance gives for as many rows. Shares are fractions of 1, divergences are in bits, and gaps are
    differences between cumulative shares.
    """

    named_after: ClassVar = ("score",)

    least: Count = 2  # alarm if at least this many of the last `of` windows drifted, the newest among them
    of: Count = 3
    unknown_pieces: Limit = 0.02
    unknown_words: Limit = 0.05
    length: Limit = 0.15
    vocabulary: Limit = 0.1
    labels: Limit = 0.05
    values: Limit = 0.15
    confidence: Limit = 0.15

    @model_validator(mode="after")
    def _possible(self) -> Self:
        if self.least > self.of:
            raise ValueError(f"least {self.least} is more than of {self.of}; least can be at most of")
        return self

    def limits(self) -> dict[str, float]:
        """Statistic -> its limit."""
        return self.model_dump(exclude={"least", "of"})
