"""The commands of registered models: retrain, promote, roll back, and where a version came from."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from flows.cli.arguments import REFUSED, AsJson, Name, Reason, Watched, group, print_answer
from flows.local import prefect_settings
from pipelines.core import paths
from pipelines.core.errors import UsageError, printable
from pipelines.graph import checking

cli = group()


@cli.command()
def retrain(names: Annotated[list[str] | None, typer.Argument(help="entries of promote; all if none")] = None) -> None:
    """Bring the graph up to date and register the challengers."""
    prefect_settings.before_a_flow(names or [], "promote")
    from flows.retrain import retrain as run

    for version in run(names or None):
        print(f"{version} is the challenger")


@cli.command()
def promote(
    name: Name,
    version: Annotated[int | None, typer.Option(min=1, help="a version other than the challenger")] = None,
    instead_of: Annotated[int | None, typer.Option(help="only if this version is champion now")] = None,
    reason: Reason = "",
    service: Watched = "",
) -> None:
    """Compare the challenger with the champion; make it champion if it passes."""
    prefect_settings.before_a_flow([name], "promote")
    from flows.promote import promote as run

    outcome = run(name, version, instead_of, reason, service)
    champion = f"{outcome.champion} is the champion" if outcome.champion else f"{name} has no champion"
    print("\n".join(map(printable, [*outcome.reasons, champion])))
    if not outcome.promoted:
        raise typer.Exit(REFUSED)


@cli.command()
def rollback(
    name: Name,
    to: Annotated[int | None, typer.Option(help="a former champion; by default the last one before this")] = None,
    reason: Reason = "",
    service: Watched = "",
) -> None:
    """Make a former champion the champion again, if it still answers."""
    checking.require_entry(name, "promote")  # it is no flow, and needs no server
    from flows.promote import rollback as run

    print(f"{run(name, to, reason, service)} is the champion again")


@cli.command()
def history(
    name: Name,
    at: Annotated[str, typer.Option(help="a time, such as 2026-11-23T09:00; UTC unless it names a zone")] = "",
    as_json: AsJson = False,
) -> None:
    """Print who made which version champion, when and why; with --at, the champion at that time."""
    from pipelines.lifecycle import history as ledger

    record, plain = (ledger.champion_at(name, at), ledger.plain_at) if at else (ledger.history(name), ledger.plain)
    print_answer(record, as_json, plain)


@cli.command()
def lineage(
    what: Annotated[Literal["model", "data"], typer.Argument(help="a model, or data")],
    which: Annotated[str, typer.Argument(help="NAME@champion or NAME/3; or an md5 from dvc.lock, or its first digits")],
    as_json: AsJson = False,
    page: Annotated[
        Path | None, typer.Option(help="write a page with a picture to this file; only for a model")
    ] = None,
) -> None:
    """Print what a registered version was made of, or which versions were made of some data."""
    from pipelines.lifecycle import lineage as of

    lineage = of.of_model(which) if what == "model" else of.of_data(which)
    if page:
        if what == "data":
            raise UsageError("--page is for `bertline lineage model`")
        with paths.fresh_file(page) as aside:
            aside.write_text(of.page_of_model(lineage), encoding="utf-8")
    plain = of.plain_model if what == "model" else of.plain_data
    print_answer(lineage, as_json, plain)
