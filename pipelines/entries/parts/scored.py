"""The split to predict and score: keys of evaluate and of baseline."""

from pipelines.core.section import Name, Section


class Scored(Section):
    """One split of one task."""

    task: Name
    split: Name = "test"
    slices: dict[str, str] = {}  # name -> regular expression; the slice is the rows with a text that matches
