"""The drift of a job's scored windows from its model's profile, and whether that is an alarm."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core import paths, tables
from pipelines.core.errors import InputError, shown
from pipelines.core.windows import Window, between
from pipelines.entries.score import Score
from pipelines.entries.watch import Watch
from pipelines.evaluation import drift
from pipelines.lifecycle import scored_windows
from pipelines.measurement import drift_profile
from pipelines.reports import drift_page
from pipelines.tracking import registry

Lines = list[dict[str, Any]]  # one for each statistic of a window
# (the file to keep the lines in, job, rules, the window's name, its scored file) -> the lines
Measure = Callable[[Path, Score, Watch, str, Path], Lines]
OF = b"bertline.drift"  # in a kept file's metadata: of which scored file its numbers are
SCHEMA = pa.schema(
    [
        pa.field("window", pa.string()),
        pa.field("model_version", pa.int64()),
        pa.field("rows", pa.int64()),
        pa.field("statistic", pa.string()),
        *(pa.field(name, pa.float64()) for name in ("value", "by_chance", "limit")),
        pa.field("drifted", pa.bool_()),
    ]
)


@dataclass(frozen=True)
class Watched:
    """The result of a watch: the measured windows, the oldest first, each with a dictionary for each statistic."""

    job: str
    windows: dict[str, list[dict[str, Any]]]
    alarm: bool
    rule: str
    page: Path

    def drifted(self, window: str) -> list[str]:
        """The statistics of a window that drifted."""
        return [line["statistic"] for line in self.windows[window] if line["drifted"]]


def watch(job: str, entry: Score, rules: Watch, measure_window: Measure, tell: Callable[[str], None]) -> Watched:
    """Measure the scored windows of a job that were not measured yet.

    The numbers of each window stay in artifacts/drift/JOB, beside a page with a plot of them. A window that cannot be
    measured does not stop the others: they decide on the alarm, and then InputError names the failed windows.

    Args:
        measure_window: measures one window.
        tell: called with the name of the last window if there is an alarm.
    """
    newest = Window.at(datetime.now(UTC), entry.every).before()
    lines_by_window: dict[str, Lines] = {}
    failed: list[str] = []
    for window in between(scored_windows.first(entry), newest):
        if (target := Path(window.path(entry.target))).is_file():
            try:
                lines_by_window[window.name] = _measured(job, entry, rules, window, target, measure_window)
            except InputError as error:
                failed.append(f"{window.name}: {error}")
    rule = f"{rules.least} of the last {rules.of} windows, the newest among them"
    flags = [any(line["drifted"] for line in lines) for lines in lines_by_window.values()]
    page = paths.drift(job) / "index.html"
    watched = Watched(job, lines_by_window, drift.alarm(flags, rules.least, rules.of), rule, page)
    if lines_by_window:
        with paths.fresh_file(page) as aside:
            aside.write_text(drift_page.html(job, lines_by_window, rule, watched.alarm), encoding="utf-8")
    if watched.alarm:
        tell(list(lines_by_window)[-1])
    if failed:
        others = f"the others: {verdict(watched)}" if lines_by_window else "the others are not scored"
        raise InputError(f"{job}: {len(failed)} windows are not measured: {'; '.join(failed)}; {others}")
    return watched


def _measured(job: str, entry: Score, rules: Watch, window: Window, target: Path, measure_window: Measure) -> Lines:
    """A window's statistics: those that were kept, as long as neither its scores nor the limits are others."""
    file = paths.drift(job) / f"{window.name}.parquet"
    lines = kept_lines(file, target)
    if lines is not None and all(line["limit"] == rules.limits().get(line["statistic"]) for line in lines):
        return lines
    return measure_window(file, entry, rules, window.name, target)


def kept_lines(file: Path, target: Path) -> Lines | None:
    """The numbers in `file` if they are those of the file `target`; None where there are none, or they are damaged."""
    try:
        if (tables.open_parquet(file).schema_arrow.metadata or {}).get(OF) != _state(target):
            return None
        return tables.rows(tables.read(file, schema=SCHEMA), file)
    except (InputError, OSError):
        return None


def _state(target: Path) -> bytes:
    """The identity of a file, from its size and time. A later time says nothing: the clock may have been set back."""
    status = target.stat()
    return f"{status.st_size} bytes, {status.st_mtime_ns} ns".encode()


def measure(place: Path, entry: Score, rules: Watch, window: str, target: Path) -> Lines:
    """Measure a scored file against the profile of the version that scored it, and keep the numbers."""
    schema = SCHEMA.with_metadata({OF: _state(target)})
    file = tables.open_parquet(target)
    shifts: list[drift.Shift] = []
    version = scored_by_version(target, entry.prefix)
    if version:
        scored_by = registry.version(entry.model, version)
        profile = tables.read(registry.profile(scored_by), schema=drift.SCHEMA)
        observed = drift_profile.of_scored(target, registry.folder(scored_by), entry.prefix)
        shifts = drift.shifts(profile, observed, rules.limits())
    same = {"window": window, "model_version": version, "rows": file.metadata.num_rows}
    lines = [{**same, **shift.__dict__, "drifted": shift.drifted} for shift in shifts]
    with paths.fresh_file(place) as aside:
        tables.write(aside, pa.Table.from_pylist(lines, schema).to_batches(), schema)
    return lines


def scored_by_version(target: Path, prefix: str) -> int | None:
    """The number of the version that scored the last row of a file; None if it has no rows."""
    number = f"{prefix}model_version"
    stamp = tables.read(target, [number]).column(number)
    try:
        version = stamp[-1].as_py() if len(stamp) else None
    except (pa.ArrowException, ValueError, OverflowError):  # a date of no year, a text of no letters
        version = str(stamp.type)
    if len(stamp) and (type(version) is not int or version < 1):
        raise InputError(f"{target}: {number} of the last row is {shown(version)}, not a version; score it again")
    return version


def plain(watched: Watched) -> str:
    """A line for each window, and one for the alarm."""
    lines = []
    for name, shifts in watched.windows.items():
        shifted = [f"{s['statistic']} {s['value']:.3f} (limit {s['limit']:g})" for s in shifts if s["drifted"]]
        if not shifts:
            lines.append(f"{name}  {0:>8,} rows  nothing to measure")
            continue
        rows = shifts[0]["rows"]
        verdicts = [f"drifted: {', '.join(shifted)}"] if shifted else ["no drift"]
        if few := [shift["statistic"] for shift in shifts if drift_page.too_few(shift)]:
            verdicts.append(f"too few rows to tell: {', '.join(few)}")
        lines.append(f"{name}  {rows:>8,} rows  {'; '.join(verdicts)}")
    if not lines:
        return f"{watched.job}: no window is scored yet"
    return "\n".join([*lines, verdict(watched), f"picture: {watched.page}"])


def verdict(watched: Watched) -> str:
    """The verdict in words: whether there is an alarm, and by which rule."""
    return f"{'drift' if watched.alarm else 'no drift'}, by the rule {watched.rule}"
