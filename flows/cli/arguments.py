"""Arguments, options and exit statuses that commands share."""

import gc
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer

from flows.cli.completion import evaluated, of_sections, stages
from pipelines.core.errors import printable
from pipelines.core.progress import say

INTERRUPTED = 130  # the exit status after Ctrl-C
FAILED = 1  # so end errors too; UsageError has 2
REFUSED = 3  # the gate refuses a challenger, or a search finds nothing
DRIFTED = 4  # windows of a scoring job

MODELS, JOBS = of_sections("promote"), of_sections("score", "watch")
Name = Annotated[
    str, typer.Argument(help="a registered model: an entry of promote in params.yaml", autocompletion=MODELS)
]
Run = Annotated[
    str,
    typer.Argument(help="an evaluated run: an entry of evaluate or baseline in params.yaml", autocompletion=evaluated),
]
Stage = Annotated[str, typer.Argument(help="such as finetune@livedoor", autocompletion=stages)]
Job = Annotated[str, typer.Argument(help="a scoring job: an entry of score in params.yaml", autocompletion=JOBS)]


def _reason(reason: str) -> str:
    """The reason. Raises UsageError if it is too long, before anything is measured."""
    from pipelines.lifecycle import registry_refusals

    registry_refusals.require_reason(reason)
    return reason


Reason = Annotated[str, typer.Option(help="the reason, for the ledger", callback=_reason)]

Watched = Annotated[
    str, typer.Option("--service", metavar="URL", help="watch this service take it up; or BERTLINE_SERVICE names it")
]


@contextmanager
def importing() -> Iterator[None]:
    """Import large libraries without the garbage collector, which would search all that they make, for nothing."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def group() -> typer.Typer:
    """An empty group of commands, to be added to those of `bertline`."""
    return typer.Typer(no_args_is_help=True, add_completion=False)


def json_with(keys: str) -> Any:
    """The option `--json` of a command; its help names the keys of the answer."""
    return typer.Option("--json", help=f"print JSON: {keys}")


def tell(line: str, as_json: bool) -> None:
    """Print a line for a person: to stdout, or to stderr where stdout is for JSON."""
    if as_json:
        say(line)
    else:
        print(printable(line))


def print_answer(answer: Any, as_json: bool, plain: Callable[[Any], str] = str) -> None:
    """Print the answer as JSON, or as the lines that `plain` makes of it."""
    print(printable(json.dumps(answer, ensure_ascii=False, indent=1), keep="\n") if as_json else plain(answer))


def require_registered(name: str) -> None:
    """Raise InputError if a model is not registered, before MLflow is imported, and without making a store."""
    from pipelines.tracking import registry_snapshot

    registry_snapshot.require(name)


def require_version(name: str, which: str = "") -> None:
    """Raise InputError as `require_registered`, or if no version has this alias or number; "" is the champion's."""
    from pipelines.lifecycle import registry_refusals
    from pipelines.tracking.ledger_events import CHAMPION

    registry_refusals.of_version(name, which or CHAMPION)
