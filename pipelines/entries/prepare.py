"""prepare: the corpus to turn into rows, and the expectations of the rows."""

from typing import Annotated, ClassVar

from pydantic import Field

from pipelines.core.section import Fraction, PluginSection, Section, Switch


class Expect(Section):
    """The expectations of the rows; the stage fails if one of them is not met."""

    min_rows: Annotated[int, Field(ge=0)] = 1  # in each split
    max_empty: Fraction = 1.0  # share of rows without text
    max_duplicates: Fraction = 1.0  # share of rows that repeat an earlier row of their split
    max_conflicts: Fraction = 1.0  # share of rows whose text has another label in an earlier row of their split
    max_near_duplicates: Fraction = 1.0  # share of the compared rows that are similar to an earlier row of their split
    max_unmatched: Fraction = 1.0  # share of rows with an answer that is not the text at its position
    no_leakage: Switch = False  # whether a text in two splits is an error
    warn: Switch = False  # print expectations that are not met, and do not fail


class Prepare(PluginSection):
    plugins: ClassVar = ("corpus", "pipelines.data.corpora")

    corpus: str
    source: str  # the folder or file to read: artifacts/raw/NAME, or a path of your own
    task: str = ""  # a key of the corpus's TASKS, if it has any
    splits: list[str] = []  # the task's splits to take; empty: all
    sample: Annotated[float, Field(gt=0, le=1)] = 1.0  # share of rows to take, drawn by their ids
    expect: Expect = Expect()
