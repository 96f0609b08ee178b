"""The command `bertline`: options of every command, and one sentence where one fails."""

import os
from importlib import metadata
from typing import Annotated

import typer

from flows.cli import beginning, comparisons, graph, models, rows, searches, services, texts, upkeep, verifying
from flows.cli.arguments import INTERRUPTED
from flows.cli.panels import DEBUG, Commands
from flows.local import loopback, prefect_settings
from pipelines.core import stage

VERSION = "print the version, and end"

cli = typer.Typer(
    cls=Commands,
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    help="bertline: text in, dependable models out.",
)
for commands in (beginning, graph, comparisons, searches, models, texts, rows, verifying, services, upkeep):
    cli.add_typer(commands.cli)


def _print_version(on: bool) -> None:
    if on:
        print(f"bertline {metadata.version('bertline')}")
        raise typer.Exit


@cli.callback()
def options(
    debug: Annotated[bool, typer.Option("--debug", help="show the traceback of an error")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="no progress")] = False,
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_print_version, help=VERSION)] = False,
) -> None:
    DEBUG["on"] = debug
    if quiet:
        os.environ["BERTLINE_QUIET"] = "1"


def main() -> None:
    loopback.without_proxy()
    prefect_settings.use_local_state()
    with stage.one_sentence("bertline", lambda: DEBUG["on"]):
        try:
            cli()
        except SystemExit as end:
            if end.code == INTERRUPTED:  # typer says nothing then
                raise KeyboardInterrupt from None
            raise
