"""promote: the conditions under which a challenger becomes champion."""

from typing import ClassVar

from pipelines.core.section import Fraction, Name, Positive, Section


class Promote(Section):
    """The conditions for a registered name. Challenger and champion are scored on the same rows."""

    refers: ClassVar = {"run": ("finetune", "compress")}

    run: Name  # the run that retrain registers
    at_least: Fraction = 0.0  # the lowest score that passes, in the task's metric
    may_lose: Fraction = 0.0  # how much less than the champion it may score
    max_latency_ratio: Positive | None = None  # its latency divided by the champion's, at most
