"""baseline: the task on which a model without a neural network is fitted and scored, and the settings of the model."""

from typing import Annotated, ClassVar

from pydantic import Field

from pipelines.core.section import Positive, Range
from pipelines.entries.parts.scored import Scored


class Baseline(Scored):
    """The baseline of one task (see inference/baseline.py). A model must beat it to be worth its cost."""

    refers: ClassVar = {"task": ("prepare",)}

    ngrams: Range = (1, 3)  # shortest and longest, in characters
    c: Positive = 1.0  # regularization parameter C of the SVM
    seed: Annotated[int, Field(ge=0)] = 1
