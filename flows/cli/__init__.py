"""bertline: the command line, a file a group of commands."""

from flows.cli.app import cli, main

__all__ = ["cli", "main"]
