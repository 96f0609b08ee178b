"""The commands that compare runs: a table of all of them, the difference of two, and what one misreads."""

from typing import Annotated

import typer

from flows.cli.arguments import Run, group, json_with, print_answer
from flows.cli.panels import COMPARE, listed

cli = group()
RUNS = "a list of objects: run, kind, task, split, metric, score, interval, size_bytes, latency_ms, rows_per_second"
MISREAD = "run, task, split, metric, score, rows, misread, confusions, listed"


@cli.command(**listed(COMPARE, "bertline table", "bertline table --json"))
def table(as_json: Annotated[bool, json_with(RUNS)] = False) -> None:
    """Print every run's score and size, and how fast it is on this machine."""
    from pipelines.core import params
    from pipelines.reports import report_folder

    if as_json:
        print_answer(report_folder.compared(params.read()), as_json)
    else:
        print(report_folder.comparison(params.read()))


@cli.command(
    **listed(COMPARE, "bertline diff headlines-svm headlines", "bertline diff headlines headlines-int8 --rows 20")
)
def diff(
    first: Run,
    second: Run,
    rows: Annotated[int, typer.Option(min=0, help="rows that are shown of those gained, and of those lost")] = 5,
    as_json: Annotated[bool, json_with("runs, task, split, params, costs, score, rows, slices")] = False,
) -> None:
    """Print how two runs differ: params, slices won and lost with intervals, rows that changed, costs."""
    from pipelines.evaluation import run_difference
    from pipelines.reports import difference_text

    print_answer(run_difference.difference(first, second, rows), as_json, difference_text.plain)


@cli.command(**listed(COMPARE, "bertline misread headlines", "bertline misread headlines --rows 50"))
def misread(
    run: Run,
    rows: Annotated[int, typer.Option(min=0, help="rows that are shown with their texts")] = 10,
    as_json: Annotated[bool, json_with(MISREAD)] = False,
) -> None:
    """Print which labels a run takes for which, and the worst rows that it does not answer right."""
    from pipelines.evaluation import misread_rows
    from pipelines.reports import misread_text

    print_answer(misread_rows.misread(run, rows), as_json, misread_text.plain)
