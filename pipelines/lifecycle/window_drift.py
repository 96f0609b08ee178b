"""The drift of a job's scored windows from its model's profile, and whether that is an alarm."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa

from pipelines.core import paths, provenance, tables
from pipelines.core.errors import InputError, listed, shown
from pipelines.core.windows import Window, between
from pipelines.entries.score import Score
from pipelines.entries.watch import Watch
from pipelines.evaluation import drift
from pipelines.lifecycle import scored_windows
from pipelines.measurement import drift_profile
from pipelines.reports import drift_page
from pipelines.scoring import batch_scoring
from pipelines.tracking import registry

Lines = list[dict[str, Any]]  # one for each statistic of a window
# (the file to keep the lines in, job, rules, the window's name, its scored file) -> the lines
Measure = Callable[[Path, Score, Watch, str, Path], Lines]
# in a kept file's metadata: of which scored file its numbers are, by size and time, and by content
OF, CONTENT = b"bertline.drift", b"bertline.drift.content"
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
    removed: int = 0  # windows that are not measured: the version that scored them was removed

    def drifted(self, window: str) -> list[str]:
        """The statistics of a window that drifted."""
        return [line["statistic"] for line in self.windows[window] if line["drifted"]]


def watch(job: str, entry: Score, rules: Watch, measure_window: Measure, tell: Callable[[str], None]) -> Watched:
    """Measure the scored windows of a job that were not measured yet.

    The numbers of each window stay in artifacts/drift/JOB, beside a page with a plot of them. A window that cannot be
    measured does not stop the others: they decide on the alarm, and then InputError names the failed windows. Windows
    of versions that were removed are counted.

    Args:
        measure_window: measures one window.
        tell: called with the name of the last window if there is an alarm.
    """
    lines_by_window, removed, failed = _all_lines(job, entry, rules, measure_window)
    rule = f"{rules.least} of the last {rules.of} windows, the newest among them"
    flags = [any(line["drifted"] for line in lines) for lines in lines_by_window.values()]
    page = paths.drift(job) / "index.html"
    watched = Watched(job, lines_by_window, drift.alarm(flags, rules.least, rules.of), rule, page, removed)
    if lines_by_window:
        with paths.fresh_file(page) as aside:
            aside.write_text(drift_page.html(job, lines_by_window, rule, watched.alarm), encoding="utf-8")
    if watched.alarm:
        tell(list(lines_by_window)[-1])
    if failed:
        others = f"the others: {verdict(watched)}" if lines_by_window else "the others are not scored"
        raise InputError(f"{job}: {len(failed):,} windows are not measured: {listed(failed)}; {others}")
    return watched


def _all_lines(
    job: str, entry: Score, rules: Watch, measure_window: Measure
) -> tuple[dict[str, Lines], int, list[str]]:
    """The statistics of each scored window, the number of those of removed versions, and why others have none."""
    lines_by_window, removed, failed = dict[str, Lines](), 0, list[str]()
    registered = cache(lambda: {version.version for version in registry.versions(entry.model)})
    for window, file, target in _scored(job, entry):
        try:
            lines = _by_limits(file, rules.limits(), target)
            if lines is None and _is_removed(scored_by_version(target, entry.prefix), registered()):
                removed += 1
                continue
            lines_by_window[window] = measure_window(file, entry, rules, window, target) if lines is None else lines
        except InputError as error:
            failed.append(f"{window}: {error}")
    return lines_by_window, removed, failed


def measured(job: str, entry: Score, rules: Watch) -> dict[str, Lines]:
    """The statistics of each scored window that was measured, by the limits of `rules`; nothing is written."""
    limits = rules.limits()
    judged = {window: _judged(kept_lines(file, target), limits) for window, file, target in _scored(job, entry)}
    return {window: lines for window, lines in judged.items() if lines is not None}


def _scored(job: str, entry: Score) -> Iterator[tuple[str, Path, Path]]:
    """The scored windows of a job, the oldest first: the name, the file of its statistics, and its scored file."""
    for window in between(scored_windows.first(entry), Window.at(datetime.now(UTC), entry.every).before()):
        target = Path(window.path(entry.target))
        if target.is_file():
            yield window.name, paths.drift(job) / f"{window.name}.parquet", target


def _is_removed(version: int | None, registered: Collection[int]) -> bool:
    """Return whether a version is no more; where none is registered, the model or the store is another one."""
    return bool(version is not None and registered and version not in registered)


def _by_limits(file: Path, limits: dict[str, float], target: Path) -> Lines | None:
    """The numbers that were kept of `target`, judged by these limits; None where it must be measured."""
    before = kept_lines(file, target)
    lines = _judged(before, limits)
    if lines is not None and (lines != before or _identity(file)[OF] != _state(target)):  # or put back, with a new time
        _keep(file, lines, _identity(file) | {OF: _state(target)})
    return lines


def _judged(before: Lines | None, limits: dict[str, float]) -> Lines | None:
    """The numbers of a window, judged by these limits; None if they are of other statistics, or there are none."""
    if before is None or any(line["statistic"] not in limits for line in before):
        return None
    lines = []
    for line in before:
        name = line["statistic"]
        shift = drift.Shift(name, line["value"], line["by_chance"], limits[name])
        lines.append(line | {"limit": shift.limit, "drifted": shift.drifted})
    return lines


def kept_lines(file: Path, target: Path) -> Lines | None:
    """The numbers in `file` if they are those of the file `target`; None where there are none, or they are damaged."""
    try:
        of = _identity(file)
        if of.get(OF) != _state(target) and (CONTENT not in of or of[CONTENT] != _content(target)):
            return None
        return tables.rows(tables.read(file, schema=SCHEMA), file)
    except (InputError, OSError):
        return None


def _identity(file: Path) -> dict[bytes, bytes]:
    """The scored file that the numbers in `file` are of."""
    metadata = tables.open_parquet(file).schema_arrow.metadata or {}
    return {name: metadata[name] for name in (OF, CONTENT) if name in metadata}


def _state(target: Path) -> bytes:
    """The identity of a file, from its size and time. A later time says nothing: the clock may have been set back."""
    status = target.stat()
    return f"{status.st_size} bytes, {status.st_mtime_ns} ns".encode()


def _content(target: Path) -> bytes:
    return provenance.sha256(target).encode()


def _keep(place: Path, lines: Lines, of: dict[bytes, bytes]) -> None:
    schema = SCHEMA.with_metadata(of)
    with paths.fresh_file(place) as aside:
        tables.write(aside, pa.Table.from_pylist(lines, schema).to_batches(), schema)


def measure(place: Path, entry: Score, rules: Watch, window: str, target: Path) -> Lines:
    """Measure a scored file against the profile of the version that scored it, and keep the numbers."""
    of = {OF: _state(target), CONTENT: _content(target)}
    file = tables.open_parquet(target)
    shifts: list[drift.Shift] = []
    version = scored_by_version(target, entry.prefix)
    if version:
        scored_by = registry.version(entry.model, version)
        profile = tables.read(registry.profile(scored_by), schema=drift.SCHEMA)
        observed = drift_profile.of_scored(target, _folder(scored_by, target), entry.prefix)
        shifts = drift.shifts(profile, observed, rules.limits())
    same = {"window": window, "model_version": version, "rows": file.metadata.num_rows}
    lines = [{**same, **shift.__dict__, "drifted": shift.drifted} for shift in shifts]
    _keep(place, lines, of)
    return lines


def _folder(version: registry.Version, target: Path) -> Path:
    """The folder of the version that scored a file. Raises InputError if the file names other files of that number."""
    folder = registry.folder(version)
    scored_by = batch_scoring.model_digest(target)
    if scored_by and scored_by != provenance.content_digest(folder):
        raise InputError(f"{target}: scored by another model than {version} has now; score it again")
    return folder


def scored_by_version(target: Path, prefix: str) -> int | None:
    """The number of the version that scored the last row of a file; None if it has no rows."""
    number = f"{prefix}model_version"
    column = tables.read(target, [number]).column(number)
    try:
        version = column[-1].as_py() if len(column) else None
    except (pa.ArrowException, ValueError, OverflowError):  # a date of no year, a text of no letters
        version = str(column.type)
    if len(column) and (type(version) is not int or version < 1):
        raise InputError(f"{target}: {number} of the last row is {shown(version)}, not a version; score it again")
    return version


def plain(watched: Watched) -> str:
    """A line for each of the last windows, and one for the alarm."""
    last = list(watched.windows.items())[-drift_page.MOST :]
    lines = [_line(name, shifts) for name, shifts in last]
    if earlier := len(watched.windows) - len(last):
        lines.insert(0, f"{earlier:,} earlier windows: {watched.page.parent}")
    if watched.removed:
        lines.insert(0, f"not measured: {watched.removed:,} windows; the version that scored them was removed")
    if not watched.windows:
        return "\n".join(lines) or f"{watched.job}: no window is scored yet"
    return "\n".join([*lines, verdict(watched), f"picture: {watched.page}"])


def _line(name: str, shifts: Lines) -> str:
    """A window in one line."""
    if not shifts:
        return f"{name}  {0:>8,} rows  nothing to measure"
    shifted = [f"{s['statistic']} {s['value']:.3f} (limit {s['limit']:g})" for s in shifts if s["drifted"]]
    verdicts = [f"drifted: {', '.join(shifted)}"] if shifted else ["no drift"]
    if few := [shift["statistic"] for shift in shifts if drift_page.too_few(shift)]:
        verdicts.append(f"too few rows to tell: {', '.join(few)}")
    return f"{name}  {shifts[0]['rows']:>8,} rows  {'; '.join(verdicts)}"


def verdict(watched: Watched) -> str:
    """The verdict in words: whether there is an alarm, and by which rule."""
    return f"{'drift' if watched.alarm else 'no drift'}, by the rule {watched.rule}"
