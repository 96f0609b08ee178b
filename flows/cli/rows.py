"""The commands that score rows: a file, the windows of a job, and their drift."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.arguments import DRIFTED, AsJson, Job, Name, group, print_answer
from flows.cli.panels import LOOK_AFTER, SERVE, listed
from flows.local import prefect_settings

cli = group()


@cli.command(**listed(SERVE, "bertline score headlines rows.parquet scored.parquet"))
def score(name: Name, source: Path, target: Path, prefix: str = "") -> None:
    """Score the rows of a Parquet file with the champion."""
    prefect_settings.before_a_flow()
    from flows.score import score as run

    print(f"{run(name, str(source), str(target), prefix=prefix):,} rows scored into {target}")


@cli.command(**listed(SERVE, "bertline backfill score nightly --from 2026-11-01 --to 2026-11-07"))
def backfill(
    what: Annotated[Literal["score"], typer.Argument(help="what to backfill")],
    job: Job,
    since: Annotated[str, typer.Option("--from", help="the first window, such as 2026-11-01, or 2026-11-01T09")],
    until: Annotated[str, typer.Option("--to", help="the last window")],
) -> None:
    """Score the windows of a job that were not scored, each once."""
    prefect_settings.before_a_flow([job], "score")
    from flows.score_windows import backfill as run

    print("\n".join(run(job, since, until)) or f"{job} has no windows between {since} and {until}")


@cli.command(**listed(LOOK_AFTER, "bertline watch nightly"))
def watch(job: Job, as_json: AsJson = False) -> None:
    """Print whether the scored windows of a job drift from what its model was trained on."""
    prefect_settings.before_a_flow([job], "watch")
    from flows.watch import watch as run
    from pipelines.lifecycle import window_drift

    watched = run(job)
    answer = {name: getattr(watched, name) for name in ("job", "windows", "alarm", "rule")} | {
        "page": str(watched.page)
    }
    print_answer(answer, as_json, lambda _: window_drift.plain(watched))
    if watched.alarm:
        raise typer.Exit(DRIFTED)
