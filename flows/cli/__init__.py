"""bertline: the command line, a file a group of commands."""

from flows.cli.command import cli, main

__all__ = ["cli", "main"]
