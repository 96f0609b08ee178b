"""Files of secrets, which their owner alone may read."""

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pipelines.core.errors import InputError

OWNER_ONLY = 0o600
OTHERS = 0o077  # the permissions that others must not have


def lines(path: Path) -> list[str]:
    """The lines of a file of keys. Raises InputError if it cannot be read, or if other users may read it too."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # without the mark that Windows' editors begin a file with
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: the keys cannot be read ({error})") from None
    if path.stat().st_mode & OTHERS:
        raise InputError(f"{path}: other users may read the keys; run `chmod 600 {path}`")
    return text.splitlines()


def create(path: Path, text: str) -> None:
    """Create a file for its owner alone, unless it exists: whole, or not at all, if two processes create it at once."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        with open(os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, OWNER_ONLY), "w") as file:
            os.fchmod(file.fileno(), OWNER_ONLY)  # one of a killed process may lie there
            file.write(text)
        with suppress(FileExistsError):
            os.link(aside, path)
    finally:
        aside.unlink(missing_ok=True)


@contextmanager
def appending(path: Path) -> Iterator[Callable[[str], None]]:
    """Lock a file of keys, which is made for its owner alone, to read it and to add a line by the function.

    The line is on the disk when the function returns.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, OWNER_ONLY)
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield lambda line: _append(file, line)
        finally:
            os.close(file)
    except OSError as error:
        raise InputError(f"{path}: the key cannot be written ({error.strerror})") from None


def _append(file: int, line: str) -> None:
    size = os.fstat(file).st_size
    begins = size == 0 or os.pread(file, 1, size - 1) == b"\n"  # somebody may have edited the file
    os.write(file, f"{'' if begins else chr(10)}{line}\n".encode())
    os.fsync(file)
