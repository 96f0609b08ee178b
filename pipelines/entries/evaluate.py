"""evaluate: the split that a model is scored on, and the behaviour checks that it must pass."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from pipelines.core.section import Fraction, Section
from pipelines.entries.parts.scored import Scored


class Check(Section):
    """One behaviour check (Ribeiro et al. 2020, CheckList): minimum functionality, invariance or direction.

    It has either `rows`, or a change of the split's texts: `replace`, `write` or both.
    """

    at_least: Fraction = 1.0  # share of the rows that must pass
    rows: list[dict[str, Any]] = []  # minimum functionality: inputs, each with the prediction that is expected
    # invariance and direction: the change of each text of the split; rows that it does not change do not count
    replace: dict[str, str] = {}  # regular expression -> replacement
    write: Literal["", "upper", "lower", "full_width"] = ""
    columns: list[str] = []  # the texts to change; empty: all of the kind's inputs
    # direction: the label whose probability must not fall ("up") or rise ("down"); "value" is a regression's number
    moves: dict[str, Literal["up", "down"]] = {}
    tolerance: Annotated[float, Field(ge=0)] = 0.0  # allowed change of a value, or of a number the wrong way


class Evaluate(Scored):
    """The evaluation of the model that the entry is named after."""

    refers: ClassVar = {"task": ("prepare",)}
    named_after: ClassVar = ("finetune", "compress")

    behaviour: dict[str, Check] = {}
