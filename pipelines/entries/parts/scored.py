"""What is predicted and scored: the keys of evaluate and of baseline."""

from pipelines.core.section import Section


class Scored(Section):
    """One split of one task."""

    task: str
    split: str = "test"
    slices: dict[str, str] = {}  # name -> regular expression: the slice has the rows with a text that matches
