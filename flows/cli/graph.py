"""The commands of the graph: check params.yaml, choose it, run it, say why a stage would run."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli import completion
from flows.cli.arguments import AsJson, Stage, group, print_answer
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
) -> None:
    """Check params.yaml: its keys and names, and the files, columns and splits that it names.

    With --page every row of corpora of your own is read as well. The status is 1 if there are errors, not for doubts.
    """
    if page:
        _write_findings(page)
        return
    from pipelines.core import params
    from pipelines.data import references
    from pipelines.graph import checking

    sections = checking.check()
    checking.check_options(sections)

    if wrong := [f"{params.FILE}: {complaint}" for complaint in references.complaints(sections)]:
        raise FindingsError(wrong, UsageError.exit_status)
    print(f"params.yaml: {sum(map(len, sections.values()))} entries, all well-formed")


def _write_findings(page: Path) -> None:
    from pipelines.graph import check_findings

    errors, doubts = check_findings.write(page)
    sentence = f"{page}: {errors:,} errors and {doubts:,} doubts are on the page"
    if errors:
        raise InputError(sentence)
    print(sentence)


@cli.command(**listed(MAKE, "bertline use params/livedoor.yaml"))
def use(
    file: Annotated[Path, typer.Argument(help="such as params/livedoor.yaml", autocompletion=completion.ready_made)],
    force: bool = False,
) -> None:
    """Make FILE the active params.yaml; refuses to overwrite edits that are saved nowhere else."""
    from pipelines.core import params
    from pipelines.graph import checking

    checking.activate(file, force)
    print(f"{params.FILE} is {file} now; `dvc repro` brings the graph up to date")


@cli.command("run", **listed(MAKE, "bertline run", "bertline run finetune@headlines --dry"))
def run_graph(
    targets: Targets = None,
    jobs: Annotated[int, typer.Option(min=0, help="stages at the same time; 0: as many as resources allow")] = 0,
    keep_going: Annotated[bool, typer.Option(help="after a failure, run the stages that do not depend on it")] = False,
    dry: Annotated[bool, typer.Option(help="print what would run, but run nothing")] = False,
) -> None:
    """Bring the graph up to date, as `dvc repro` does, with stages side by side."""
    from pipelines.graph import executor, why

    if dry:
        print("\n".join(why.would_run(targets or [])))
        return
    ran = executor.run(targets or [], jobs, keep_going)
    print(f"{len(ran)} stages ran" if ran else "nothing to do")
    _tell_doubts(ran)


def _tell_doubts(ran: list[str]) -> None:
    """Print a line for each run that was scored now and has learned nothing, or less than its baseline."""
    scored = {name.partition("@")[2] for name in ran if name.startswith(("evaluate@", "baseline@"))}
    if scored:
        from pipelines.core import params
        from pipelines.reports import report_folder

        for sentence in report_folder.doubts(params.read(), scored):
            typer.echo(f"warning: {sentence}", err=True)


@cli.command(**listed(LOOK_AFTER, "bertline why finetune@headlines"))
def why(stage: Stage, as_json: AsJson = False) -> None:
    """Print why STAGE would run, or why not: the params and files that changed, and what imports them."""
    from pipelines.graph import why as of_stage

    print_answer(of_stage.reasons(stage), as_json, lambda answer: "\n".join(of_stage.lines(answer)))
