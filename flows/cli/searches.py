"""The commands that search: over the params of an entry, and over chains of compression methods."""

from typing import Annotated, Literal

import typer

from flows.cli.arguments import REFUSED, group, json_with, print_answer
from flows.cli.completion import of_sections
from flows.cli.panels import MAKE, listed
from flows.local import prefect_settings

cli = group()
TEACHERS = of_sections("finetune", "compress")


@cli.command(**listed(MAKE, "bertline tune reviews"))
def tune(
    run: Annotated[str, typer.Argument(help="an entry of tune in params.yaml", autocompletion=of_sections("tune"))],
    as_json: Annotated[bool, json_with("run, metric, split, trials, best")] = False,
) -> None:
    """Search for better params of a finetune entry; an interrupted search continues where it stopped."""
    prefect_settings.before_a_flow([run], "tune")
    from flows.tune import tune as search
    from pipelines.reports import tuning_page

    trials = search(run)
    best = f"the best params; put them into finetune.{run}:\n{tuning_page.best(trials)}".rstrip("\n")
    print_answer(tuning_page.answer(trials), as_json, lambda _: f"{tuning_page.plain(trials)}\n{best}")


@cli.command(**listed(MAKE, "bertline compress headlines --max-loss 1.0 --target latency"))
def compress(
    run: Annotated[
        str, typer.Argument(help="the teacher that compress entries of params.yaml name", autocompletion=TEACHERS)
    ],
    max_loss: Annotated[float, typer.Option(min=0, help="points that a result may score below the teacher")] = 1.0,
    target: Annotated[Literal["size", "latency"], typer.Option(help="what to make small")] = "size",
    steps: Annotated[int, typer.Option(min=1, help="the most methods in a chain")] = 3,
    width: Annotated[int, typer.Option(min=1, help="results of each round that the next round extends")] = 2,
    trust_point: Annotated[
        bool, typer.Option("--trust-point", help="judge by the score alone, without its uncertainty")
    ] = False,
    as_json: Annotated[
        bool, json_with("run, metric, split, budget, teacher, tried, winner, entries, gate, refused")
    ] = False,
) -> None:
    """Search methods and chains for the smallest or fastest model; an interrupted search continues where it stopped."""
    prefect_settings.before_a_flow([run], "finetune", "compress")
    from flows.compress import compress as search
    from pipelines.search import chain_results
    from pipelines.search.chains import Budget

    result = search(run, Budget(max_loss, target, steps, width, trust_point))
    print_answer(chain_results.answer(result), as_json, lambda _: chain_results.plain(result))
    if not result.winner:
        raise typer.Exit(REFUSED)
