"""The share of changed answers that a replay foretold of a version, held against the share among live requests.

`bertline promote --replay` keeps its numbers with the version, in the tag `verdict`. A canary or shadow of the version
counts the rows that it and the champion of the replay both answer, and the rows that they answer otherwise.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from pipelines.core.progress import say
from pipelines.evaluation import significance
from pipelines.evaluation.significance import Interval
from pipelines.serving.disagreements import differs, digest
from pipelines.tracking.registry import Version

MOST_ROWS = 20_000  # different rows that are counted; later ones are left out
LOOK_ROWS = 100  # rows between two looks at the intervals
TOLERANCE = 0.1  # the difference of two numbers that changes no answer, as in the entry `promote`
Share = Annotated[float, Field(ge=0, le=1)]


@dataclass(frozen=True)
class ReplayedShare:
    """The result of a replay: the share of answers that differ from those of the version `against`."""

    against: int
    share: Share
    interval: tuple[Share, Share]  # 95%
    tolerance: Annotated[float, Field(ge=0)] = TOLERANCE

    @classmethod
    def of(cls, version: Version) -> "ReplayedShare | None":
        """The replay that is kept with a version; None if there is none, or another program wrote something else."""
        try:
            return _REPLAYED.validate_python(json.loads(version.tags.get("verdict", "{}")).get("replay"))
        except (ValidationError, ValueError, AttributeError):
            return None


_REPLAYED = TypeAdapter(ReplayedShare)


@dataclass
class LiveShare:
    """Rows of requests that a version and the champion of its replay both answered."""

    version: Version
    replayed: ReplayedShare
    changed: int = 0
    rows: int = 0
    counts: Counter[str] = field(default_factory=Counter)  # digest of a row -> how often it was compared
    squares: int = 0  # the sum of the squares of `counts`, as these are too many to add up while requests wait
    _logged: str = ""

    @classmethod
    def of(cls, version: Version) -> "LiveShare | None":
        """An empty count for a version; None if no replay is kept with it."""
        replayed = ReplayedShare.of(version)
        return cls(version, replayed) if replayed else None

    @property
    def interval(self) -> Interval:
        """The 95% interval of the share; a row that is sent again counts as fewer (`significance.effective_size`)."""
        return significance.share_interval(self.changed / self.rows, self.rows**2 / self.squares)

    def add(self, kind: str, row: dict[str, Any], first: dict[str, Any], second: dict[str, Any]) -> None:
        """Count a row with the answers of both versions. The log says once if the share is not the replayed one."""
        name = digest(row)
        if name not in self.counts and len(self.counts) >= MOST_ROWS:
            return
        self.rows += 1
        self.squares += 2 * self.counts[name] + 1
        self.counts[name] += 1
        self.changed += differs(kind, first, second, self.replayed.tolerance)
        if self.rows % LOOK_ROWS == 0 and not self._logged and self.verdict not in ("", "as replayed"):
            self._logged = self.sentence()
            say(self._logged)

    @property
    def verdict(self) -> str:
        """`more` or `fewer` answers change than were replayed, if the intervals are apart; "" before the first row."""
        if not self.rows:
            return ""
        low, high = self.interval
        if low > self.replayed.interval[1]:
            return "more"
        return "fewer" if high < self.replayed.interval[0] else "as replayed"

    def sentence(self) -> str:
        """The comparison in words."""
        against = f"{self.version} against version {self.replayed.against}"
        foretold = _share(self.replayed.share, self.replayed.interval)
        if not self.rows:
            return f"{against}: no live row was compared yet; the replay said that {foretold} would change"
        seen = f"{_share(self.changed / self.rows, self.interval)} of {self.rows:,} live answers changed"
        than = {"as replayed": "as", "more": "more than", "fewer": "fewer than"}[self.verdict]
        return f"{against}: {seen}, {than} the replay said: {foretold}"

    def numbers(self) -> dict[str, Any]:
        """The comparison as JSON (schemas.LiveShare)."""
        seen = {"share": self.changed / self.rows, "interval": list(self.interval)} if self.rows else {}
        replayed = {
            "against": self.replayed.against,
            "replayed_share": self.replayed.share,
            "replayed_interval": list(self.replayed.interval),
        }
        counts = {"rows": self.rows, "changed": self.changed}
        return {**replayed, **counts, **seen, "verdict": self.verdict, "sentence": self.sentence()}


def _share(share: float, interval: Interval) -> str:
    return f"{share:.2%} ({interval[0]:.2%} to {interval[1]:.2%})"
