"""Locks between processes: `wait_for_...` waits for another process, `claim_...` raises InputError while one has it.

The kernel frees a lock when its process ends.
"""

import fcntl
import os
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from pipelines.core import paths
from pipelines.core.errors import BeingWrittenError, InputError

TRIES, TRY_SECONDS = 10, 0.05  # whoever looks for a lock takes it for a moment
FLOCK = "hhqqi0q"  # the fields of fcntl's struct flock: type, whence, start, length, pid
_claimed_entries: set[Path] = set()  # the lock files of this process


@contextmanager
def wait_for_folder(folder: Path) -> Iterator[None]:
    """Wait until no other process has the lock on `folder`, and keep it during the block."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


@contextmanager
def claim_file(folder: Path, name: str) -> Iterator[None]:
    """Keep the lock on `folder / name` during the block.

    Raises InputError while another process has it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(paths.below(folder, name), os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _try(descriptor):
            raise BeingWrittenError(folder)
        yield
    finally:
        os.close(descriptor)


def _try(descriptor: int) -> bool:
    """Take the lock of a file; False if another process keeps it for longer than `is_claimed` does."""
    for _ in range(TRIES):
        with suppress(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        time.sleep(TRY_SECONDS)
    return False


def is_claimed(folder: Path, name: str) -> bool:
    """Return whether a process has the lock on `folder / name` (see `claim_file`)."""
    try:
        descriptor = os.open(paths.below(folder, name), os.O_RDONLY)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


@contextmanager
def claim_entry(stage: str, name: str) -> Iterator[None]:
    """Keep the lock of a stage's entry during the block; its file then names this process.

    Raises InputError while another process has it.
    """
    path = paths.lock(stage, name)
    with _opened(path, "a+") as file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            raise InputError(f"it is already running ({file.read().strip()}); wait until it ends, or stop it") from None
        file.truncate(0)
        file.write(f"process {os.getpid()} on {socket.gethostname()}")
        file.flush()
        _claimed_entries.add(path.resolve())
        try:
            yield
        finally:
            _claimed_entries.discard(path.resolve())


def wait_for_entry(stage: str, name: str) -> IO[str]:
    """Wait until no other process has the lock of a stage's entry, and keep it until the returned file is closed."""
    file = _opened(paths.lock(stage, name), "a")
    fcntl.lockf(file, fcntl.LOCK_EX)
    return file


def _opened(path: Path, mode: str) -> IO[str]:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.open(mode, encoding="utf-8")


def runs_elsewhere(stage: str, name: str) -> bool:
    """Return whether another process has the lock of a stage's entry, in whichever container.

    The kernel is only asked: a lock that is taken for a moment would refuse a run that begins.
    """
    path = paths.lock(stage, name)
    if path.resolve() in _claimed_entries or not path.is_file():  # closing the file once more would free the lock
        return False
    with path.open("rb") as file:
        query = struct.pack(FLOCK, fcntl.F_RDLCK, os.SEEK_SET, 0, 0, 0)
        kind, *_ = struct.unpack(FLOCK, fcntl.fcntl(file, fcntl.F_GETLK, query))
    return bool(kind != fcntl.F_UNLCK)
