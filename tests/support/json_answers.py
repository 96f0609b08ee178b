"""The keys of a command's answer with --json, as its help names them."""

import json
import re
from typing import Any

import typer

from flows.cli import cli

GROUP: Any = typer.main.get_command(cli)
HEAD = "print JSON: "


def json_help(name: str) -> str:
    """The help of a command's option --json; "" if it has no such option."""
    options = [param for param in GROUP.commands[name].params if "--json" in param.opts]
    return options[0].help if options else ""


def keys(name: str, place: int = 0) -> set[str]:
    """The keys of the answer; `place` counts the forms of a command that has several."""
    form = json_help(name).removeprefix(HEAD).split("; ")[place]
    words = re.sub(r" \(.*?\)|^.*: ", "", form)  # such as `a list of objects: run, score (the mean)`
    return {word.split()[0] for word in words.split(", ")}


def require_keys(name: str, out: str, place: int = 0) -> Any:
    """The answer in a command's output. Fail unless it is one value, with the keys that the help names."""
    answer = json.loads(out)
    row = answer[0] if isinstance(answer, list) else answer
    assert set(row) == keys(name, place), name
    return answer
