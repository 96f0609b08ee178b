"""The doorway of every stage: one argument, one clear sentence when something is wrong."""

import argparse
import fcntl
import os
import socket
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pipelines.core import paths
from pipelines.core.errors import InputError


@contextmanager
def one_sentence(name: str, debug: Callable[[], bool] = lambda: False) -> Iterator[None]:
    """Turn a person's mistake into one sentence on stderr and an exit status; bugs keep their traceback."""
    try:
        yield
    except (InputError, OSError) as error:
        if debug():
            traceback.print_exc()
        print(f"{name}: {error}", file=sys.stderr)
        sys.exit(getattr(error, "exit_status", 1))
    except KeyboardInterrupt:
        print(f"{name}: interrupted", file=sys.stderr)
        sys.exit(130)


@contextmanager
def alone(name: str, key: str) -> Iterator[None]:
    """Refuse to run one entry of a stage twice at a time; the kernel frees the lock of a process that is gone."""
    path = paths.lock(name, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise InputError(f"it runs already ({file.read().strip()}); wait for its end, or stop it") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        yield


def run(name: str, main: Callable[[str], None]) -> None:
    """Run `main(key)` for the entry named on the command line: `python -m pipelines.stages.NAME KEY`."""
    parser = argparse.ArgumentParser(prog=f"python -m pipelines.stages.{name}")
    parser.add_argument(
        "entry", nargs="?" if name == "report" else None, default="all", help=f"an entry of {name}: in params.yaml"
    )
    parser.add_argument("--debug", action="store_true", help="show the traceback of an error")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    if name == "prepare":
        parser.add_argument("--strict", action="store_true", help="stop at answers that do not stand at their place")
    arguments = parser.parse_args()
    if getattr(arguments, "strict", False):
        os.environ["BERTLINE_STRICT"] = "1"
    if arguments.quiet:
        os.environ["BERTLINE_QUIET"] = "1"
    with one_sentence(f"{name} {arguments.entry}", lambda: arguments.debug), alone(name, arguments.entry):
        main(arguments.entry)
