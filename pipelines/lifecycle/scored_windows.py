"""The windows of a scoring job, each scored once."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time
from pathlib import Path

from pipelines.core import stage
from pipelines.core.errors import InputError
from pipelines.core.windows import Window
from pipelines.entries.score import Score
from pipelines.scoring import batch_scoring
from pipelines.tracking import registry

ScoreOne = Callable[[Window, Score, Path, Path], int]  # of a window: its source and target; returns the rows


def first(entry: Score) -> Window:
    """The first window of a job."""
    return Window.at(datetime.combine(entry.since, time(), UTC), entry.every)


def score(job: str, entry: Score, windows: Sequence[Window], must: int, score_window: ScoreOne) -> list[str]:
    """Score each window once. What fails does not keep the others; it is raised at the end, as is a missing file of the
    last `must` windows.
    """
    lines, missing, failed = list[str](), list[str](), list[str]()
    with stage.alone("score", job):
        for number, window in enumerate(windows):
            source, target = Path(window.path(entry.source)), Path(window.path(entry.target))
            try:
                if target.is_file():
                    lines.append(f"{window.name}: already scored, {target}")
                elif not source.is_file() and number < len(windows) - must:
                    missing.append(f"{window.name}: no file {source}")
                    lines.append(missing[-1])
                else:
                    rows = score_window(window, entry, source, target)
                    lines.append(f"{window.name}: {rows:,} rows into {target}")
            except InputError as error:
                failed.append(f"{window.name}: {error}")
    if failed:
        none = [*failed, *missing]
        others = "; ".join(["", *(line for line in lines if line not in missing)])
        raise InputError(f"{job}: {len(none)} of {len(windows)} windows are not scored: {'; '.join(none)}{others}")
    return lines


def score_one(entry: Score, source: Path, target: Path) -> int:
    """Score a window's file with the champion; returns the number of rows."""
    return batch_scoring.score(source, target, registry.get(entry.model, registry.CHAMPION), entry.prefix)
