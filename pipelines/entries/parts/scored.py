"""The split to predict and score: keys of evaluate and of baseline."""

import re

from pipelines.core.section import Name, Section

# the slices that every split of a kind has, whatever the entry says: `analysis.rows_of_slices` makes them of the rows
OF_KIND = re.compile(r"\d+ to \d+ characters|an answer|no answer|no entity|1 entity|2 or more")


class Scored(Section):
    """One split of one task."""

    task: Name
    split: Name = "test"
    slices: dict[str, str] = {}  # name -> regular expression; the slice is the rows with a text that matches
