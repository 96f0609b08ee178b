"""Folders of rows and of answers, on this machine or in S3; whatever reads or writes one does not know which it is."""

import json
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pipelines.core import locks, paths
from pipelines.core.errors import InputError, NoFileError
from pipelines.core.paths import is_hidden
from pipelines.core.s3_objects import S3
from pipelines.scoring import durable

RECORD = "_job.json"
LOCK = "_lock"
PARTIAL = "_partial"  # the folder of files that are being written
CANCEL = "_cancel"  # a file that asks the job to end at its next piece


class GoneError(NoFileError):
    """A file of a folder in S3 is not there any more."""


class Folder:
    """A folder of this machine, or one file of it; `path` is where its files are read."""

    largest_bytes: int | None = None  # of a partition whose answers it takes; None: any

    def __init__(self, path: Path) -> None:
        self.path = path

    def __str__(self) -> str:
        return str(self.path)

    @property
    def aside(self) -> Path:
        """The folder of this machine for files that are being written."""
        return self.path / PARTIAL

    def is_file(self) -> bool:
        """Return whether it is one file, and no folder."""
        return self.path.exists() and not self.path.is_dir()

    def place(self, name: str) -> Path:
        """The path of a file of `names`."""
        return self.path if self.is_file() else self.path / name

    def names(self) -> list[str]:
        """The files in it, sorted, without those whose name, or a folder's name above, begins with a dot or `_`.

        Raises InputError if there is no such folder, or a part of it cannot be read.
        """
        if self.is_file():
            return [self.path.name]
        if not self.path.exists():
            raise NoFileError(f"{self}: no such file or folder")
        return sorted(self._walk())

    def _walk(self) -> Iterator[str]:
        def fails(error: OSError) -> None:
            raise InputError(f"{error.filename}: this folder cannot be read ({error.strerror})")

        for place, folders, files in os.walk(self.path, onerror=fails):
            folders[:] = [name for name in folders if not is_hidden(name)]
            links = [name for name in folders if (Path(place) / name).is_symlink()]
            if links:
                raise InputError(f"{Path(place) / links[0]}: a link to a folder; name the folder itself, or copy it")
            for name in files:
                if not is_hidden(name):
                    yield (Path(place) / name).relative_to(self.path).as_posix()

    def unfit(self, name: str) -> str:
        """The reason why a file of `names` cannot be scored; "" if there is none."""
        return "" if self.place(name).is_file() else "is not a file"

    def has(self, name: str) -> bool:
        """Return whether there is such a file."""
        return self.place(name).is_file()

    def size_bytes(self, name: str) -> int:
        """The size of a file. Raises FileNotFoundError if it is gone."""
        return self.place(name).stat().st_size

    def having(self, *names: str) -> AbstractContextManager[None]:
        """During the block the files are in their `place`. Raises GoneError if one is not there, or is gone."""
        return nullcontext()

    def update(self) -> None:
        """Bring the records of a job, _job.json and its manifest, to their places as they are now."""

    def publish(self, partial: Path, name: str) -> None:
        """Make a complete file in `aside` the file `name`: durable, and as a whole. This process holds the lock."""
        durable.publish(partial, paths.below(self.path, name))

    def write_json(self, name: str, value: Any) -> None:
        """Publish a JSON file; after a crash it is whole or not there."""
        partial = self.aside / f"{Path(name).name}.json"
        with durable.written(self.path / name):
            partial.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
            self.publish(partial, name)

    def sole_writer(self) -> AbstractContextManager[None]:
        """Hold the lock during the block. Raises InputError while another process holds it."""
        return locks.claim_file(self.path, LOCK)

    def has_writer(self) -> bool:
        """Return whether a process holds the lock."""
        return locks.is_claimed(self.path, LOCK)

    def cancel(self) -> None:
        """Ask the process that holds the lock to end."""
        (self.path / CANCEL).touch()

    def forget_cancel(self) -> None:
        """Take such a request back."""
        (self.path / CANCEL).unlink(missing_ok=True)

    def is_cancelled(self) -> bool:
        """Return whether somebody has asked."""
        return (self.path / CANCEL).exists()

    def top_names(self) -> set[str]:
        """The names of what lies in it, without what lies deeper."""
        return {file.name for file in self.path.iterdir()} if self.path.is_dir() else set()

    def contains(self, other: "Folder") -> bool:
        """Return whether `other` is this folder, or lies in it."""
        return type(other) is Folder and other.path.resolve().is_relative_to(self.path.resolve())

    def jobs(self) -> Iterator[str]:
        """The folders of jobs in it and below it. Raises InputError if there is no such folder."""
        if not self.path.is_dir():
            raise InputError(f"{self}: no such folder")
        for folder, folders, files in os.walk(self.path):
            if RECORD in files:
                folders.clear()  # a job's folder has answers, no jobs
                yield folder

    def shown(self, text: str) -> str:
        """A message as it is for a person."""
        return text


@contextmanager
def opened(name: Path | str) -> Iterator[Folder]:
    """A folder or a file by its name, such as rows/ or s3://bucket/rows; an error in the block names it as it is."""
    if not is_remote(name):
        yield Folder(Path(name))
        return
    from pipelines.scoring.s3_folder import S3Folder  # boto3 is imported only for these

    with TemporaryDirectory(prefix="bertline-s3-") as place:
        folder = S3Folder.of(str(name), Path(place))
        try:
            yield folder
        except InputError as error:
            error.args = (folder.shown(str(error)),)
            raise


def is_remote(name: Path | str) -> bool:
    """Return whether a name is that of a folder in S3."""
    return str(name).startswith(S3)


def full_name(name: Path | str) -> str:
    """The name that any process finds a folder or a file by."""
    return str(name).rstrip("/") if is_remote(name) else str(Path(name).resolve())
