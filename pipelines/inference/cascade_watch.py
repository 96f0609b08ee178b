"""Watch a cascade while it answers: at random its champion answers a share of the rows too, and they are compared.

A cascade that keeps its agreement is found broken with a probability of ERROR at most, however long it is watched: the
looks are made after 256, 512, 1,024 ... compared rows, and the k-th has ERROR / 2 ** k of that (a union bound).
"""

from pipelines.evaluation import agreement
from pipelines.inference.cascade import Cascade, ComparedRows, Composition
from pipelines.inference.predictor import Predictor

SHARE = 0.02  # of all rows
FIRST_ROWS = 256
ERROR = 0.05


class CascadeWatch:
    """Rows that a cascade and its champion both answered, and whether too many of the answers differ."""

    def __init__(self, composition: Composition) -> None:
        self.composition, self.compared = composition, ComparedRows(SHARE)
        self._looks, self._cause = 0, ""
        self.logged = ""  # why its champion could not answer in its place

    @classmethod
    def of(cls, *predictors: Predictor | None) -> "CascadeWatch | None":
        """Begin to watch a cascade, opened once or several times; None if the model is no cascade."""
        cascades = [opened.runtime for opened in predictors if opened and isinstance(opened.runtime, Cascade)]
        if not cascades:
            return None
        watch = cls(cascades[0].composition)
        for cascade in cascades:
            cascade.compared = watch.compared
        return watch

    def broken(self) -> str:
        """Say what shows that the cascade does not keep its agreement; "" if nothing has shown it."""
        rows, differing = self.compared.rows, self.compared.differing
        if self._cause or rows < FIRST_ROWS * 2**self._looks:
            return self._cause
        self._looks += 1
        least = agreement.lower_bound(differing, rows, 1 - ERROR / 2**self._looks)
        allowed = 1 - self.composition.agreement
        if least > allowed:
            self._cause = (
                f"answered {differing:,} of {rows:,} compared rows otherwise than version {self.composition.champion}, "
                f"which shows {least:.2%} of all rows or more; {allowed:.2%} are allowed"
            )
        return self._cause
