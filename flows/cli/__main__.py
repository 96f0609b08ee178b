"""`python -m flows.cli` is `bertline`."""

from flows.cli.command import main

main()
