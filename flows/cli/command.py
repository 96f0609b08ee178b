"""The command `bertline`: options of every command, and one sentence where one fails."""

import os
from typing import Annotated

import typer

from flows.cli import beginning, graph, models, rows, searches, services
from flows.cli.arguments import INTERRUPTED
from flows.local import prefect_settings
from pipelines.core import stage

cli = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="bertline: text in, dependable models out.",
)
for commands in (beginning, graph, searches, models, rows, services):
    cli.add_typer(commands.cli)
DEBUG = {"on": False}


@cli.callback()
def options(
    debug: Annotated[bool, typer.Option(help="show the traceback of an error")] = False,
    quiet: Annotated[bool, typer.Option(help="no progress")] = False,
) -> None:
    DEBUG["on"] = debug
    if quiet:
        os.environ["BERTLINE_QUIET"] = "1"


def main() -> None:
    prefect_settings.use_local_state()
    with stage.one_sentence("bertline", lambda: DEBUG["on"]):
        try:
            cli()
        except SystemExit as end:
            if end.code == INTERRUPTED:  # typer says nothing then
                raise KeyboardInterrupt from None
            raise
