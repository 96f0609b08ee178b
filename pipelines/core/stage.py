"""The entry point of every stage: it parses the command line, and reports a user's mistake in one sentence."""

import argparse
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipelines.core import locks
from pipelines.core.errors import MAX_PRINTED, FindingsError, InputError, one_line

MARK = "error: "  # before the sentence of a failure, so that it does not read like a line of progress
RED = ("\033[1;31m", "\033[0m")  # on a terminal


@contextmanager
def one_sentence(name: str, debug: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Turn a user's mistake into one sentence on stderr and an exit status; bugs keep their traceback."""
    try:
        yield
    except (InputError, OSError) as error:
        if debug():
            traceback.print_exc()
        for line in error.lines() if isinstance(error, FindingsError) else [error]:
            print(f"{name}: {_mark()}{one_line(line, MAX_PRINTED)}", file=sys.stderr)
        sys.exit(getattr(error, "exit_status", 1))
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        sys.exit(130)


def _mark() -> str:
    """The mark of a failure, in red on a terminal unless NO_COLOR is set (no-color.org)."""
    in_colour = sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    return f"{RED[0]}{MARK}{RED[1]}" if in_colour else MARK


def unmarked(line: str) -> str:
    """The last line of a stage that failed, without the mark: it becomes a part of another failure's sentence."""
    return line.replace(f": {MARK}", ": ", 1)


def run(name: str, main: Callable[..., None], entry: bool = True, **flags: str) -> None:
    """Run `main(key)` for the entry named on the command line: `python -m pipelines.stages.NAME KEY`.

    Args:
        entry: whether the stage has entries; without them `main()` is called.
        flags: the stage's own switches with their help; `main` takes each as a keyword.
    """
    from pipelines.core import resources, threads  # the command line imports this module, and needs neither

    parser = argparse.ArgumentParser(prog=f"python -m pipelines.stages.{name}")
    if entry:
        parser.add_argument("entry", help=f"an entry of {name}: in params.yaml")
    for flag, says in {**flags, "debug": "show the traceback of an error", "quiet": "no progress"}.items():
        parser.add_argument(f"--{flag}", action="store_true", help=says)
    options = vars(parser.parse_args())
    if options.pop("quiet"):
        os.environ["BERTLINE_QUIET"] = "1"
    debug, key = options.pop("debug"), options.pop("entry", "")
    with one_sentence(f"{name} {key}".strip(), lambda: debug), locks.claim_entry(name, key or "all"):
        threads.use(resources.read(name, key).threads or threads.of_container())
        main(*([key] if entry else []), **options)
