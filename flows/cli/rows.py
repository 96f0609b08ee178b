"""The commands that score rows: a file, the windows of a job, and their drift."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows.cli.arguments import DRIFTED, Job, Name, group, json_with, print_answer, require_version
from flows.cli.panels import LOOK_AFTER, SERVE, listed
from flows.local import prefect_settings
from pipelines.core.errors import UsageError, printable

cli = group()
WORKERS = "processes that score files of the folder side by side; on a cluster 1 means all its CPUs"
STATES = "store each row's encoder states, from which a version with another head answers without the encoder"
RECEIPTS = "a file of keys (bertline receipt-key): each answer has a receipt that the last one signs"
SCORED = "for a file: model, rows, target; for a folder: a line for each finished partition, then the summary"
OF_FOLDERS = "--max-bad, --max-characters, --since, --workers, --receipts and --states"
JOBS = (
    "a list of objects: target, source, model, version, state, rows, rows_done and others; "
    "with --cancel: target, cancelled"
)


def _prefix(prefix: str) -> str:
    """The prefix. Raises UsageError for one that no column's name can have."""
    from pipelines.entries.parts.prefix import checked

    try:
        return checked(prefix)
    except UsageError as error:
        raise UsageError(f"--prefix: {error}") from None


@cli.command(
    **listed(
        SERVE, "bertline score headlines rows.parquet scored.parquet", "bertline score headlines incoming/ scored/"
    )
)
def score(
    name: Name,
    source: Annotated[str, typer.Argument(help="a Parquet, CSV or JSONL file, or a folder of them; s3:// too")],
    target: Annotated[str, typer.Argument(help="a Parquet file for a Parquet file, else the job's folder; s3:// too")],
    prefix: Annotated[str, typer.Option(help="before the names of the new columns", callback=_prefix)] = "",
    max_bad: Annotated[
        str, typer.Option(help="the most bad rows, such as 1% or 100; more stop it before it begins")
    ] = "",
    max_characters: Annotated[int, typer.Option(min=0, help="a longer input is a bad row; 0: 1,000,000")] = 0,
    as_json: Annotated[bool, json_with(SCORED)] = False,
    since: Annotated[
        str, typer.Option(help="an earlier job's folder; rows that it answered are not scored again")
    ] = "",
    workers: Annotated[int, typer.Option(min=1, help=WORKERS)] = 1,
    replay_quarantine: Annotated[bool, typer.Option(help="SOURCE has mended rows of the job in TARGET")] = False,
    receipts: Annotated[Path | None, typer.Option(help=RECEIPTS)] = None,
    states: Annotated[bool, typer.Option("--states", help=STATES)] = False,
) -> None:
    """Score the rows of a file or a folder with the champion; an interrupted job of a folder goes on."""
    chosen: dict[str, Any] = {"max_bad": max_bad, "longest": max_characters, "since": since, "states": states}
    chosen |= {"receipts": receipts and str(receipts), "workers": workers if workers > 1 else 0}
    of_folders = {key: value for key, value in chosen.items() if value}
    if replay_quarantine:
        if of_folders or prefix:
            raise UsageError(f"--prefix, {OF_FOLDERS} are not for --replay-quarantine: the job in TARGET has its own")
        _replay(name, source, target, as_json)
        return
    if _is_folder_job(source, target):
        _score_folder(name, source, target, as_json, {"prefix": prefix, **of_folders})
        return
    if of_folders:
        raise UsageError(f"{OF_FOLDERS} are for folders, CSV and JSONL, not one Parquet file")
    require_version(name)
    prefect_settings.before_a_flow()
    from flows.score import score as run

    rows = run(name, source, target, prefix=prefix)
    answer = {"model": name, "rows": rows, "target": target}
    print_answer(answer, as_json, lambda _: f"{rows:,} rows scored into {target}")


def _replay(name: str, source: str, target: str, as_json: bool) -> None:
    """Score mended rows of a job's quarantine, and print the outcome."""
    from flows.local import code_commit
    from pipelines.scoring import job_folders, replay

    if job_folders.is_remote(source):
        raise UsageError(f"{source}: mended rows are a file of this machine; copy it here")
    outcome = replay.run(Path(source), target, name, code_commit.current())
    print_answer(asdict(outcome), as_json, lambda _: printable(outcome.sentence()))


def _is_folder_job(source: str, target: str) -> bool:
    """Return whether the answers are a folder. Raises UsageError if they are, and `target` looks like a file."""
    from pipelines.scoring import job_folders

    if job_folders.is_remote(source) or job_folders.is_remote(target):
        if target.endswith(".parquet"):
            raise UsageError(f"{target}: in S3, and from S3, also the answers to one file are a folder; name a folder")
        return True
    if not Path(source).is_dir() and Path(source).suffix.lower() not in (".csv", ".jsonl"):
        return False
    if target.endswith(".parquet") and not (Path(target) / job_folders.RECORD).is_file():
        raise UsageError(f"{target}: the answers to a folder, and to a CSV or JSONL file, are a folder; name a folder")
    return True


def _score_folder(name: str, source: str, target: str, as_json: bool, options: dict[str, Any]) -> None:
    """Score partition by partition, and print the outcome: a sentence, or the summary as JSON."""
    require_version(name)
    prefect_settings.before_a_flow()
    from flows.score_folder import score_folder as run
    from pipelines.core.canonical_json import canonical

    outcome = run(name, source, target, as_json=as_json, **options)
    print(canonical(outcome.summary).decode() if as_json else printable(outcome.sentence()))


@cli.command(
    **listed(SERVE, "bertline jobs scored/", "bertline jobs scored/ --cancel", "bertline jobs scored/ --resume")
)
def jobs(
    place: Annotated[str, typer.Argument(help="a folder with jobs below it, or that of one job")],
    cancel: Annotated[bool, typer.Option("--cancel", help="the job in PLACE ends at its next piece")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="the job in PLACE goes on with the arguments it had")
    ] = False,
    as_json: Annotated[bool, json_with(JOBS)] = False,
) -> None:
    """List the scoring jobs below a folder; cancel or resume one."""
    from pipelines.scoring import job_list

    if cancel and resume:
        raise UsageError("--cancel and --resume are one or the other")
    if resume:
        job = job_list.required(place)
        options = {"prefix": job.prefix, "longest": job.longest, "workers": job.workers}
        _score_folder(job.model, job.source, place, as_json, options)
        return
    if cancel:
        job_list.cancel(place)
        answer = {"target": place, "cancelled": True}
        print_answer(answer, as_json, lambda _: f"{place}: its job ends at its next piece")
        return
    print_answer(
        [job.answer() for job in job_list.below(place)],
        as_json,
        lambda answer: printable(job_list.plain(answer), keep="\n"),
    )


@cli.command(**listed(SERVE, "bertline backfill score nightly --from 2026-11-01 --to 2026-11-07"))
def backfill(
    what: Annotated[Literal["score"], typer.Argument(help="what to backfill")],
    job: Job,
    since: Annotated[str, typer.Option("--from", help="the first window, such as 2026-11-01, or 2026-11-01T09")],
    until: Annotated[str, typer.Option("--to", help="the last window")],
    as_json: Annotated[bool, json_with("job, windows (a sentence for each)")] = False,
) -> None:
    """Score the windows of a job that were not scored, each once."""
    prefect_settings.before_a_flow([job], "score")
    from flows.score_windows import backfill as run

    windows = run(job, since, until)
    sentences = "\n".join(windows) or f"{job} has no windows between {since} and {until}"
    print_answer({"job": job, "windows": windows}, as_json, lambda _: sentences)


@cli.command(**listed(LOOK_AFTER, "bertline watch nightly"))
def watch(job: Job, as_json: Annotated[bool, json_with("job, windows, alarm, rule, removed, page")] = False) -> None:
    """Print whether the scored windows of a job drift from what its model was trained on."""
    prefect_settings.before_a_flow([job], "watch")
    from flows.watch import watch as run
    from pipelines.lifecycle import window_drift

    watched = run(job)
    answer = {name: getattr(watched, name) for name in ("job", "windows", "alarm", "rule", "removed")} | {
        "page": str(watched.page)
    }
    print_answer(answer, as_json, lambda _: window_drift.plain(watched))
    if watched.alarm:
        raise typer.Exit(DRIFTED)
