"""The entry point of every stage: it parses the command line, and reports a user's mistake in one sentence."""

import argparse
import fcntl
import os
import socket
import struct
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.core import paths
from pipelines.core.errors import MAX_PRINTED, FindingsError, InputError, one_line

MARK = "error: "  # before the sentence of a failure, so that it does not read like a line of progress
FLOCK = "hhqqi0q"  # the fields of fcntl's struct flock: type, whence, start, length, pid
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


@contextmanager
def alone(name: str, key: str) -> Iterator[None]:
    """Hold the lock of a stage's entry; raises InputError while another process holds it.

    The kernel frees the lock when its process ends.
    """
    path = paths.lock(name, key)
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+", encoding="utf-8") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise InputError(f"it is already running ({file.read().strip()}); wait until it ends, or stop it") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        _HELD.add(path.resolve())
        try:
            yield
        finally:
            _HELD.discard(path.resolve())


_HELD: set[Path] = set()  # the lock files of `alone` in this process


def runs_elsewhere(name: str, key: str) -> bool:
    """Return whether another process holds the lock of a stage's entry, in whichever container.

    The kernel is only asked: a lock that is taken for a moment would refuse a run that begins.
    """
    path = paths.lock(name, key)
    if path.resolve() in _HELD or not path.is_file():  # a process loses its lock if it closes the file once more
        return False
    with path.open("rb") as file:
        query = struct.pack(FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_ = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, query))
    return bool(kind != fcntl.F_UNLCK)


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
    with one_sentence(f"{name} {key}".strip(), lambda: debug), alone(name, key or "all"):
        threads.use(resources.read(name, key).threads or threads.of_container())
        main(*([key] if entry else []), **options)
