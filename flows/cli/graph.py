"""The commands of the graph: check params.yaml, choose it, run it, say why a stage would run."""

from pathlib import Path
from typing import Annotated

import typer

from flows.cli.arguments import group
from pipelines.core import params
from pipelines.core.errors import UsageError
from pipelines.graph import checking

cli = group()
SHOWN = 20  # problems of params.yaml, if there are several
Targets = Annotated[list[str] | None, typer.Argument(help="stages, such as finetune@livedoor; all if none")]


@cli.command()
def check() -> None:
    """Check params.yaml: its keys and names, and the files, columns and splits that it names."""
    sections = checking.check()
    checking.check_options(sections)
    from pipelines.data import references

    wrong = list(references.complaints(sections))
    if len(wrong) > 1:
        for complaint in wrong[:SHOWN]:
            typer.echo(f"{params.FILE}: {complaint}", err=True)
        raise UsageError(f"{params.FILE}: {len(wrong)} wrong names; the first {min(SHOWN, len(wrong))} are above")
    if wrong:
        raise UsageError(f"{params.FILE}: {wrong[0]}")
    print(f"params.yaml: {sum(map(len, sections.values()))} entries, all well-formed")


@cli.command()
def use(file: Annotated[Path, typer.Argument(help="such as params/livedoor.yaml")], force: bool = False) -> None:
    """Make FILE the active params.yaml; refuses to overwrite edits that are saved nowhere else."""
    checking.activate(file, force)
    print(f"{params.FILE} is {file} now; `dvc repro` brings the graph up to date")


@cli.command("run")
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
        from pipelines.reports import report_folder

        for sentence in report_folder.doubts(params.read(), scored):
            typer.echo(f"warning: {sentence}", err=True)


@cli.command()
def why(stage: Annotated[str, typer.Argument(help="such as finetune@livedoor")]) -> None:
    """Print why STAGE would run, or why not: the params and files that changed, and what imports them."""
    from pipelines.graph import why as reasons

    print("\n".join(reasons.why(stage)))


@cli.command()
def table() -> None:
    """Print every run's score and size, and how fast it is on this machine."""
    from pipelines.reports import report_folder

    print(report_folder.comparison(params.read()))
