"""Files that outlive a power cut: written aside, flushed to the disk, renamed, and their folder flushed too."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pipelines.core.errors import InputError, one_line


def publish(partial: Path, target: Path) -> None:
    """Rename a complete file to its final name, and wait until both the bytes and the name are on the disk."""
    _flush(partial)
    make_folder(target.parent)
    os.replace(partial, target)
    _flush(target.parent)


def make_folder(folder: Path) -> None:
    """Make a folder and those above it; each is flushed into the folder that holds it."""
    if folder.is_dir():
        return
    make_folder(folder.parent)
    folder.mkdir(exist_ok=True)
    _flush(folder.parent)


@contextmanager
def written(target: Path) -> Iterator[None]:
    """Name the file that the block writes if the disk is full, the file too large, or the folder not writable."""
    try:
        yield
    except OSError as error:  # Arrow raises it too
        raise InputError(
            f"{target}: it cannot be written ({one_line(error)}); what was finished before stays, run the job again"
        ) from None


def _flush(place: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    opened = os.open(place, os.O_RDONLY)
    try:
        os.fsync(opened)
    finally:
        os.close(opened)
