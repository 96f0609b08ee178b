"""The commands of the graph: check params.yaml, choose it, run it, say why a stage would run."""

from pathlib import Path
from typing import Annotated, Any

import typer

from flows.cli import completion
from flows.cli.arguments import FAILED, Stage, group, json_with, print_answer
from flows.cli.panels import LOOK_AFTER, MAKE, listed
from pipelines.core.errors import FindingsError, InputError, UsageError

cli = group()
Targets = Annotated[
    list[str] | None,
    typer.Argument(help="stages, such as finetune@livedoor; all if none", autocompletion=completion.stages),
]


@cli.command(**listed(MAKE, "bertline check", "bertline check --page findings.html"))
def check(
    page: Annotated[Path | None, typer.Option(help="read all rows too, and write all findings as an HTML page")] = None,
    as_json: Annotated[bool, json_with("entries, findings; with --page: page, errors, doubts")] = False,
) -> None:
    """Check params.yaml: its sections, keys and names, and the files, columns and splits that it names.

    With --page every row of corpora of your own is read as well. Errors end with status 2, and with --page with
    status 1; doubts with status 0.
    """
    if page:
        _write_findings(page, as_json)
        return
    from pipelines.graph import params_findings

    sections, wrong = params_findings.read()
    count = sum(map(len, sections.values()))
    if wrong and not as_json:
        raise FindingsError(wrong, UsageError.exit_status)
    answer = {"entries": count, "findings": wrong}
    print_answer(answer, as_json, lambda _: f"params.yaml: {count} entries, all well-formed")
    if wrong:
        raise typer.Exit(UsageError.exit_status)


def _write_findings(page: Path, as_json: bool) -> None:
    from pipelines.graph import check_findings

    errors, doubts = check_findings.write(page)
    sentence = f"{page}: {errors:,} errors and {doubts:,} doubts are on the page"
    if errors and not as_json:
        raise InputError(sentence)
    print_answer({"page": str(page), "errors": errors, "doubts": doubts}, as_json, lambda _: sentence)
    if errors:
        raise typer.Exit(FAILED)


@cli.command(**listed(MAKE, "bertline use params/livedoor.yaml"))
def use(
    file: Annotated[Path, typer.Argument(help="such as params/livedoor.yaml", autocompletion=completion.ready_made)],
    force: Annotated[bool, typer.Option(help="overwrite edits that are saved nowhere else")] = False,
    as_json: Annotated[bool, json_with("file, active")] = False,
) -> None:
    """Make FILE the active params.yaml; refuses to overwrite edits that are saved nowhere else."""
    from pipelines.core import params
    from pipelines.graph import checking

    checking.activate(file, force)
    sentence = f"{params.FILE} is {file} now; `bertline run` brings the graph up to date"
    print_answer({"file": str(file), "active": str(params.FILE)}, as_json, lambda _: sentence)


@cli.command("run", **listed(MAKE, "bertline run", "bertline run finetune@headlines --dry"))
def run_graph(
    targets: Targets = None,
    jobs: Annotated[int, typer.Option(min=0, help="stages at the same time; 0: as many as resources allow")] = 0,
    keep_going: Annotated[bool, typer.Option(help="after a failure, run the stages that do not depend on it")] = False,
    dry: Annotated[bool, typer.Option(help="print what would run, but run nothing")] = False,
    as_json: Annotated[bool, json_with("ran, doubts; with --dry: stages, would_run")] = False,
) -> None:
    """Bring the graph up to date, as `dvc repro` does, with stages side by side."""
    from pipelines.graph import checking, executor, params_findings, why

    params_findings.require_form(targets or [])
    checking.require_graph()
    if dry:
        stages, would_run = why.affected(targets or [])
        answer: dict[str, Any] = {"stages": stages, "would_run": would_run}
        print_answer(answer, as_json, lambda _: "\n".join(why.affected_lines(stages, would_run)))
        return
    ran = executor.run(targets or [], jobs, keep_going)
    doubts = _doubts(ran)
    sentence = f"{len(ran)} stages ran" if ran else "nothing to do"
    print_answer({"ran": ran, "doubts": doubts}, as_json, lambda _: sentence)
    if not as_json:
        for sentence in doubts:
            typer.echo(f"warning: {sentence}", err=True)


def _doubts(ran: list[str]) -> list[str]:
    """A sentence for each run that was scored now and has learned nothing, or less than its baseline."""
    scored = {name.partition("@")[2] for name in ran if name.startswith(("evaluate@", "baseline@"))}
    if not scored:
        return []
    from pipelines.core import params
    from pipelines.reports import report_folder

    return report_folder.doubts(params.read(), scored)


@cli.command(**listed(LOOK_AFTER, "bertline why finetune@headlines"))
def why(
    stage: Stage, as_json: Annotated[bool, json_with("stage, would_run, reasons, first, as_locked")] = False
) -> None:
    """Print why STAGE would run, or why not: the params and files that changed, and what imports them."""
    from pipelines.graph import params_findings
    from pipelines.graph import why as of_stage

    params_findings.require_form([stage])
    print_answer(of_stage.reasons(stage), as_json, lambda answer: "\n".join(of_stage.lines(answer)))
