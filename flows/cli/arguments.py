"""Arguments, options and exit statuses that commands share."""

import json
from collections.abc import Callable
from typing import Annotated, Any

import typer

from pipelines.core.errors import printable

INTERRUPTED = 130  # the exit status after Ctrl-C
REFUSED = 3  # the gate refuses a challenger, or a search finds nothing
DRIFTED = 4  # windows of a scoring job

Name = Annotated[str, typer.Argument(help="a registered model: an entry of promote in params.yaml")]
Job = Annotated[str, typer.Argument(help="a scoring job: an entry of score in params.yaml")]
AsJson = Annotated[bool, typer.Option("--json", help="print JSON")]
Reason = Annotated[str, typer.Option(help="the reason, for the ledger")]

Watched = Annotated[
    str, typer.Option("--service", metavar="URL", help="watch this service take it up; or BERTLINE_SERVICE names it")
]


def group() -> typer.Typer:
    """An empty group of commands, to be added to those of `bertline`."""
    return typer.Typer(no_args_is_help=True, add_completion=False)


def print_answer(answer: dict[str, Any], as_json: bool, plain: Callable[[dict[str, Any]], str]) -> None:
    """Print the answer as JSON, or as the lines that `plain` makes of it."""
    print(printable(json.dumps(answer, ensure_ascii=False, indent=1), keep="\n") if as_json else plain(answer))
