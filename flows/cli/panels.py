"""The panels of `bertline --help`, the examples below a command's help, and options that every command takes."""

import os
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup, TyperOption

MAKE = "Make"  # files: rows, models, scores
COMPARE = "Compare"  # runs with each other
DECIDE = "Decide"  # which version of a model is champion
SERVE = "Serve"  # predictions: over HTTP, for files, for a text
LOOK_AFTER = "Look after"  # the checkout, its servers and its machine
PANELS = (MAKE, COMPARE, DECIDE, SERVE, LOOK_AFTER)
EXAMPLES = "Examples:"
DEBUG = {"on": False}


class Command(TyperCommand):
    """A command that takes --quiet and --debug after its name too, not only before."""

    def __init__(self, *names: Any, **settings: Any) -> None:
        shared = [
            _switch("--quiet", "no progress", _quiet),
            _switch("--debug", "show the traceback of an error", _debug),
        ]
        super().__init__(*names, **settings | {"params": [*(settings.get("params") or []), *shared]})


class Commands(TyperGroup):
    """Commands in the order of their panels."""

    def list_commands(self, ctx: Any) -> list[str]:
        places = {panel: place for place, panel in enumerate(PANELS)}
        return sorted(
            super().list_commands(ctx),
            key=lambda name: places.get(vars(self.commands[name])["rich_help_panel"], len(PANELS)),
        )


def listed(panel: str, *examples: str) -> dict[str, Any]:
    """Arguments of `cli.command`: the panel of a command, and examples of its use, which its help ends with."""
    indented = [f"  {example}" for example in examples]
    return {"cls": Command, "rich_help_panel": panel, "epilog": "\n".join([EXAMPLES, *indented])}


def _switch(name: str, says: str, callback: Any) -> TyperOption:
    return TyperOption(
        param_decls=[name], is_flag=True, default=False, expose_value=False, help=says, callback=callback
    )


def _quiet(_: typer.Context, __: Any, on: bool) -> None:
    if on:
        os.environ["BERTLINE_QUIET"] = "1"


def _debug(_: typer.Context, __: Any, on: bool) -> None:
    if on:
        DEBUG["on"] = True
