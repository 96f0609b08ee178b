"""`python -m flows.cli` is `bertline`."""

from flows.cli.app import main

main()
