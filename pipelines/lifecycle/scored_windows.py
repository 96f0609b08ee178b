"""The windows of a scoring job, each scored once."""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime, time
from pathlib import Path

from pipelines.core import locks
from pipelines.core.errors import InputError, NoFileError, listed
from pipelines.core.windows import Window
from pipelines.entries.score import Score
from pipelines.scoring import batch_scoring
from pipelines.tracking import registry
from pipelines.tracking.store import StoreError

ScoreOne = Callable[[Window, Score, Path, Path], int]  # of a window: its source and target; returns the rows


def first(entry: Score) -> Window:
    """The first window of a job."""
    return Window.at(datetime.combine(entry.since, time(), UTC), entry.every)


def score(job: str, entry: Score, windows: Sequence[Window], must: int, score_window: ScoreOne) -> list[str]:
    """Score each window once, the newest first; returns a line for each, the oldest first, and one for earlier ones.

    A window whose target is not from its source, this model and this prefix fails. What fails does not keep the others;
    it is raised at the end, as is a missing file of the last `must` windows.
    """
    lines, missing, failed, before = list[str](), list[str](), list[str](), 0
    with locks.claim_entry("score", job):
        for number, window in reversed(list(enumerate(windows))):
            source, target = Path(window.path(entry.source)), Path(window.path(entry.target))
            try:
                if target.is_file():
                    batch_scoring.refuse_others(target, batch_scoring.job_of(source, entry.model, entry.prefix), source)
                    before += 1
                elif not source.is_file() and number < len(windows) - must:
                    missing.append(f"{window.name}: no file {source}")
                    lines.append(missing[-1])
                else:
                    rows = score_window(window, entry, source, target)
                    lines.append(f"{window.name}: {rows:,} rows into {target}")
            except TimeoutError:  # of the flow
                raise
            except (InputError, OSError) as error:
                failed.append(f"{window.name}: {error}")
    lines.reverse()
    earlier = [f"scored before: {before:,} of {len(windows):,} windows"] if before else []
    if failed:
        none = [*failed, *missing]
        others = [listed(scored)] if (scored := [line for line in lines if line not in missing]) else []
        count = f"{len(none):,} of {len(windows):,} windows are not scored"
        raise InputError(f"{job}: {count}: {'; '.join([listed(none), *others, *earlier])}")
    return [*lines, *earlier]


def may_pass(error: object) -> bool:
    """Return whether an error may be gone in some minutes: a file that is late, a store that is away, a full disk.

    What is wrong within a file stays wrong.
    """
    return not isinstance(error, InputError) or isinstance(error, (NoFileError, StoreError))


def score_one(entry: Score, source: Path, target: Path) -> int:
    """Score a window's file with the champion; returns the number of rows."""
    return batch_scoring.score(source, target, registry.get(entry.model, registry.CHAMPION), entry.prefix)
