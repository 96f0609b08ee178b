"""Files of rows in S3, s3://bucket/key: one, or all of a folder, copied to a folder of this machine."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from pipelines.core import paths, s3_objects
from pipelines.core.errors import InputError, NoFileError
from pipelines.core.s3_objects import Objects

THREADS = 8  # that fetch files of a folder


class S3File(NamedTuple):
    """A file in S3, and its name below the address that a person wrote."""

    objects: Objects
    key: str
    name: str
    size_bytes: int

    @property
    def address(self) -> str:
        """The file's name for a person."""
        return self.objects.name(self.key)


def listed(address: str) -> list[S3File]:
    """The file at an address, or the files below it, sorted, without empty ones and those that are no data.

    Raises UsageError for an address of another form, InputError where S3 refuses or nothing is there.
    """
    bucket, key = s3_objects.bucket_and_key(address)
    objects = Objects(bucket)
    if key and (state := objects.head(key)):
        return [S3File(objects, key, PurePosixPath(key).name, state.size_bytes)]
    prefix = f"{key}/".lstrip("/")
    files = [
        S3File(objects, place, place.removeprefix(prefix), size)
        for place, (size, _) in sorted(objects.listed(prefix).items())
    ]
    files = [file for file in files if file.size_bytes and not any(map(paths.is_hidden, file.name.split("/")))]
    if not files:
        raise NoFileError(f"{address}: no such file or folder")
    return files


def fetch(files: Sequence[S3File], folder: Path) -> list[Path]:
    """Copy files to `folder` under their names. Raises InputError if one is gone, or came in part."""
    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(lambda file: _fetched(file, folder), files))


def _fetched(file: S3File, folder: Path) -> Path:
    copy = paths.below(folder, file.name)
    copy.parent.mkdir(parents=True, exist_ok=True)
    if not file.objects.fetch(file.key, copy):
        raise NoFileError(f"{file.address}: it was removed while it was read; run it again")
    if (size := copy.stat().st_size) != file.size_bytes:
        raise InputError(f"{file.address}: {size:,} of its {file.size_bytes:,} bytes came; run it again")
    return copy
