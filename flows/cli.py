"""bertline: the command line."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from flows import cli_services, settings
from flows.cli_services import Name
from pipelines.core import checking, params, paths, stage
from pipelines.core.errors import UsageError, printable

cli = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, help=__doc__)
cli.add_typer(cli_services.cli)
DEBUG = {"on": False}
SHOWN = 20  # problems of params.yaml, if there are several
INTERRUPTED = 130  # the exit status after Ctrl-C
REFUSED = 3  # of a challenger that the gate refuses, or a search that finds nothing
DRIFTED = 4  # windows of a scoring job
Job = Annotated[str, typer.Argument(help="a scoring job: an entry of score in params.yaml")]


@cli.callback()
def options(
    debug: Annotated[bool, typer.Option(help="show the traceback of an error")] = False,
    quiet: Annotated[bool, typer.Option(help="no progress")] = False,
) -> None:
    DEBUG["on"] = debug
    if quiet:
        os.environ["BERTLINE_QUIET"] = "1"


@cli.command()
def check() -> None:
    """Check params.yaml: every key, every name, and each file, column and split that is named."""
    sections = checking.check()
    checking.check_options(sections)
    from pipelines.data import references

    wrong = list(references.complaints(sections))
    if len(wrong) > 1:
        for complaint in wrong[:SHOWN]:
            typer.echo(f"{params.FILE}: {complaint}", err=True)
        raise UsageError(
            f"{params.FILE}: {len(wrong)} names lead nowhere; the first {min(SHOWN, len(wrong))} are above"
        )
    if wrong:
        raise UsageError(f"{params.FILE}: {wrong[0]}")
    print(f"params.yaml: {sum(map(len, sections.values()))} entries, all well-formed")


@cli.command()
def use(file: Annotated[Path, typer.Argument(help="such as params/livedoor.yaml")], force: bool = False) -> None:
    """Make FILE the active params.yaml; refuses to overwrite edits that are saved nowhere else."""
    checking.activate(file, force)
    print(f"{params.FILE} is {file} now; `dvc repro` brings the graph up to date")


Targets = Annotated[list[str] | None, typer.Argument(help="stages, such as finetune@livedoor; all if none")]


@cli.command("run")
def run_graph(
    targets: Targets = None,
    jobs: Annotated[int, typer.Option(min=0, help="stages at the same time; 0: as many as resources allow")] = 0,
    keep_going: Annotated[bool, typer.Option(help="run all that does not depend on a failed stage")] = False,
    dry: Annotated[bool, typer.Option(help="say what would run, and run nothing")] = False,
) -> None:
    """Bring the graph up to date, as `dvc repro` does, with stages side by side."""
    from pipelines.graph import executor, why

    if dry:
        print("\n".join(why.would_run(targets or [])))
        return
    ran = executor.run(targets or [], jobs, keep_going)
    print(f"{len(ran)} stages ran" if ran else "nothing to do")


@cli.command()
def why(stage: Annotated[str, typer.Argument(help="such as finetune@livedoor")]) -> None:
    """Say why STAGE would run, or would not: which param, which file, imported by what."""
    from pipelines.graph import why as reasons

    print("\n".join(reasons.why(stage)))


@cli.command()
def table() -> None:
    """Print every run's score and size, and how fast it is on this machine."""
    from pipelines.reports import report

    print(report.comparison(params.read()))


@cli.command()
def tune(run: Annotated[str, typer.Argument(help="an entry of tune in params.yaml")]) -> None:
    """Search for better params of a finetune entry; an interrupted search goes on where it was."""
    settings.before_a_flow([run], "tune")
    from flows.tune import tune as search
    from pipelines.reports import tuning_page

    trials = search(run)
    print(tuning_page.plain(trials))
    print(f"the best of them, to put into finetune.{run}:\n{tuning_page.best(trials)}", end="")


@cli.command()
def compress(
    run: Annotated[str, typer.Argument(help="the teacher: a run that compress entries of params.yaml name")],
    max_loss: Annotated[float, typer.Option(min=0, help="points that a result may score below it")] = 1.0,
    target: Annotated[Literal["size", "latency"], typer.Option(help="what is to be small")] = "size",
    steps: Annotated[int, typer.Option(min=1, help="methods in a chain")] = 3,
    width: Annotated[int, typer.Option(min=1, help="results of a round that the next goes on from")] = 2,
    trust_point: Annotated[
        bool, typer.Option("--trust-point", help="take the score alone, not what rows show")
    ] = False,
) -> None:
    """Search methods and chains for the smallest or fastest model; an interrupted search goes on where it was."""
    settings.before_a_flow([run], "finetune", "compress")
    from flows.compress import compress as search
    from pipelines.compression import searched
    from pipelines.compression.chains import Budget

    result = search(run, Budget(max_loss, target, steps, width, trust_point))
    print(searched.plain(result))
    if not result.winner:
        raise typer.Exit(REFUSED)


@cli.command()
def retrain(names: Annotated[list[str] | None, typer.Argument(help="entries of promote; all if none")] = None) -> None:
    """Bring the graph up to date and register the challengers."""
    settings.before_a_flow(names or [], "promote")
    from flows.retrain import retrain as run

    for version in run(names or None):
        print(f"{version} is the challenger")


AsJson = Annotated[bool, typer.Option("--json", help="as JSON")]
Reason = Annotated[str, typer.Option(help="why, for the ledger")]


def _answer(found: dict[str, Any], as_json: bool, plain: Callable[[dict[str, Any]], str]) -> None:
    print(printable(json.dumps(found, ensure_ascii=False, indent=1), keep="\n") if as_json else plain(found))


@cli.command()
def promote(
    name: Name,
    version: Annotated[int | None, typer.Option(min=1, help="another version than the challenger")] = None,
    instead_of: Annotated[int | None, typer.Option(help="only if this version is champion now")] = None,
    reason: Reason = "",
) -> None:
    """Compare the challenger with the champion; make it champion if it passes."""
    settings.before_a_flow([name], "promote")
    from flows.promote import promote as run

    outcome = run(name, version, instead_of, reason)
    champion = f"{outcome.champion} is the champion" if outcome.champion else f"{name} has no champion"
    print("\n".join(map(printable, [*outcome.reasons, champion])))
    if not outcome.promoted:
        raise typer.Exit(REFUSED)


@cli.command()
def rollback(
    name: Name,
    to: Annotated[int | None, typer.Option(help="a version that was champion; the one before if not said")] = None,
    reason: Reason = "",
) -> None:
    """Make a former champion the champion again, if it still answers."""
    checking.require_entry(name, "promote")  # it is no flow, and needs no server
    from flows.promote import rollback as run

    print(f"{run(name, to, reason)} is the champion again")


@cli.command()
def history(
    name: Name,
    at: Annotated[str, typer.Option(help="a time, such as 2026-11-23T09:00; UTC unless it names a zone")] = "",
    as_json: AsJson = False,
) -> None:
    """Say who made which version champion, when and why; with --at, which was champion then."""
    from flows import history as ledger

    found, plain = (ledger.champion_at(name, at), ledger.plain_at) if at else (ledger.history(name), ledger.plain)
    _answer(found, as_json, plain)


@cli.command()
def lineage(
    what: Annotated[Literal["model", "data"], typer.Argument(help="what is asked about")],
    which: Annotated[str, typer.Argument(help="NAME@champion or NAME/3; or an md5 of dvc.lock, or its first letters")],
    as_json: AsJson = False,
    page: Annotated[Path | None, typer.Option(help="write a page with a picture there; of a model")] = None,
) -> None:
    """Say what a registered version was made of, or which versions were made of some data."""
    from flows import lineage as of

    lineage = of.of_model(which) if what == "model" else of.of_data(which)
    if page:
        if what == "data":
            raise UsageError("--page is for `bertline lineage model`")
        with paths.fresh_file(page) as aside:
            aside.write_text(of.page_of_model(lineage), encoding="utf-8")
    plain = of.plain_model if what == "model" else of.plain_data
    _answer(lineage, as_json, plain)


@cli.command()
def score(name: Name, source: Path, target: Path, prefix: str = "") -> None:
    """Score the rows of a Parquet file with the champion."""
    settings.before_a_flow()
    from flows.score import score as run

    print(f"{run(name, str(source), str(target), prefix=prefix):,} rows scored into {target}")


@cli.command()
def backfill(
    what: Annotated[Literal["score"], typer.Argument(help="what is made up for")],
    job: Job,
    since: Annotated[str, typer.Option("--from", help="the first window, such as 2026-11-01, or 2026-11-01T09")],
    until: Annotated[str, typer.Option("--to", help="the last window")],
) -> None:
    """Score the windows of a job that were not scored, each once."""
    settings.before_a_flow([job], "score")
    from flows.score_windows import backfill as run

    print("\n".join(run(job, since, until)) or f"{job}: no window from {since} to {until} is its own")


@cli.command()
def watch(job: Job) -> None:
    """Say whether the scored windows of a job drift from what its model was trained on."""
    settings.before_a_flow([job], "watch")
    from flows import watch as watching

    found = watching.watch(job)
    print(watching.plain(found))
    if found.alarm:
        raise typer.Exit(DRIFTED)


@cli.command("fill-mask")
def fill_mask(encoder: Path, text: str, top: int = 5) -> None:
    """Print the words that ENCODER would put in place of each [MASK] of TEXT."""
    from pipelines.inference.fill_mask import fill

    for number, guesses in enumerate(fill(encoder, text, top), start=1):
        print(f"[MASK] {number}")
        for guess in guesses:
            print(f"  {guess.probability:.4f}  {guess.piece}")


@cli.command()
def quickstart() -> None:
    """Go from samples to a served model, as `make run` does."""
    settings.before_a_flow()
    from flows.quickstart import quickstart as run

    print(run())


def main() -> None:
    settings.use_local_state()
    with stage.one_sentence("bertline", lambda: DEBUG["on"]):
        try:
            cli()
        except SystemExit as end:
            if end.code == INTERRUPTED:  # typer says nothing then
                raise KeyboardInterrupt from None
            raise


if __name__ == "__main__":
    main()
