"""The findings of a pass over the rows of a file: rows that are wrong, and labels that lost their outer spaces."""

from collections import Counter
from collections.abc import Collection

from pipelines.core.errors import FindingsError, InputError, shown
from pipelines.core.progress import say


class Findings:
    """The errors of single rows, collected so that a person meets all of them at once."""

    def __init__(self, left_out: Collection[str] = ()) -> None:
        self._forgives = "broken" in left_out
        self._wrong: list[str] = []
        self._left_out: Counter[str] = Counter()
        self._stripped: Counter[str] = Counter()

    def note(self, error: InputError) -> None:
        if self._forgives:
            self.leave_out("broken")
        else:
            self._wrong.append(str(error))

    def leave_out(self, reason: str) -> None:
        """Count a row that is left out."""
        self._left_out[reason] += 1

    def stripped(self, label: str) -> None:
        """Count a label whose outer spaces were taken away."""
        self._stripped[label] += 1

    def require_none(self) -> None:
        """Raise FindingsError with all errors, if there are any."""
        if self._wrong:
            raise FindingsError(self._wrong)

    def tell(self, where: str) -> None:
        """Print a line about rows that are left out and labels that lost spaces, if there are any."""
        if self._left_out:
            say(f"{where}: left out: {', '.join(f'{count:,} {name}' for name, count in self._left_out.items())}")
        if self._stripped:
            some = ", ".join(shown(label) for label, _ in self._stripped.most_common(3))
            say(f"{where}: spaces around the label are taken away in {self._stripped.total():,} rows, such as {some}")
