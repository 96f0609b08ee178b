"""A folder in S3, s3://bucket/prefix: the files in use are copied to a folder of this machine, and removed after it.

docs/decisions/021-scoring-in-s3.md says why nothing is lost there, and nothing doubled.
"""

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath

from pipelines.core import paths, provenance, s3_objects
from pipelines.core.errors import InputError, NoFileError
from pipelines.core.s3_objects import S3, Objects
from pipelines.scoring.job_folders import CANCEL, LOCK, RECORD, Folder, GoneError
from pipelines.scoring.s3_lock import Lock

RECORDS = (RECORD, "_manifest")  # the beginnings of the names of a job's records
THREADS = 16  # that fetch records, each of which is small
CANCEL_SECONDS = 1.0  # between two looks for a request to end


class S3Folder(Folder):
    """A folder in S3, or one object; `path` is a folder of this machine with the copies of its files."""

    largest_bytes = 4 << 30  # S3 takes an object of 5 GiB in one piece, which is what makes it final

    def __init__(self, objects: Objects, key: str, path: Path) -> None:
        super().__init__(path)
        self.objects, self.key = objects, key
        self._lock: Lock | None = None
        self._records = dict[str, str]()  # the ETags of the copies
        self._looked, self._cancelled = 0.0, False

    @classmethod
    def of(cls, name: str, path: Path) -> "S3Folder":
        """The folder of a name such as s3://bucket/rows. Raises UsageError if it is none."""
        bucket, key = s3_objects.bucket_and_key(name)
        return cls(Objects(bucket), key, path)

    def __getstate__(self) -> tuple[Objects, str, Path]:
        return (self.objects, self.key, self.path)

    def __setstate__(self, state: tuple[Objects, str, Path]) -> None:
        self.__init__(*state)  # type: ignore[misc]

    def __str__(self) -> str:
        return f"{S3}{self.objects.bucket}/{self.key}".rstrip("/")

    @cached_property
    def _one(self) -> bool:
        """True if an object has the name itself: it is one file."""
        return bool(self.key) and self.objects.head(self.key) is not None

    @cached_property
    def _sizes(self) -> dict[str, int]:
        """The sizes of all its files by name, as they were when this was first asked for."""
        start = len(self.key) - len(self._own_name()) if self._one else len(self._key(""))
        listed = self.objects.listed(self._key(""))
        return {key[start:]: size for key, (size, _) in listed.items() if not self._one or key == self.key}

    def _own_name(self) -> str:
        return PurePosixPath(self.key).name

    def _key(self, name: str) -> str:
        return self.key if self._one else f"{self.key}/{name}".lstrip("/")

    def is_file(self) -> bool:
        return self._one

    def place(self, name: str) -> Path:
        return self.path / name

    def names(self) -> list[str]:
        if not self._sizes:
            raise NoFileError(f"{self}: no such file or folder")
        if self._one:
            return [self._own_name()]
        data = (name for name in self._sizes if not any(paths.is_hidden(part) for part in name.split("/")))
        # consoles write an object for a folder: "day=1/", and "" for this one
        return sorted(name for name in data if name and not name.endswith("/"))

    def unfit(self, name: str) -> str:
        parts = name.split("/")
        if any(part in ("", ".", "..") for part in parts):
            return "has an empty part, . or .. in its name"
        above = ("/".join(parts[:count]) for count in range(1, len(parts)))
        return "lies in an object that is a file too" if any(place in self._sizes for place in above) else ""

    def has(self, name: str) -> bool:
        return self.objects.head(self._key(name)) is not None

    def size_bytes(self, name: str) -> int:
        return self._sizes[name]

    @contextmanager
    def having(self, *names: str) -> Iterator[None]:
        copies = [paths.below(self.path, name) for name in names]
        try:
            for name, copy in zip(names, copies, strict=True):
                copy.parent.mkdir(parents=True, exist_ok=True)
                if not self.objects.fetch(self._key(name), copy):
                    raise GoneError(f"{self.objects.name(self._key(name))}: missing")
            yield
        finally:
            for copy in copies:
                copy.unlink(missing_ok=True)

    def update(self) -> None:
        if self._one:  # it has no records
            return
        now = dict[str, str]()
        for beginning in RECORDS:
            prefix = self._key(beginning)
            listed = self.objects.listed(prefix)
            now |= {beginning + key.removeprefix(prefix): etag for key, (_, etag) in listed.items()}
        others = [name for name, etag in now.items() if self._records.get(name) != etag]
        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(self._update, others))
        self._records = now

    def _update(self, name: str) -> None:
        copy = paths.below(self.path, name)
        copy.parent.mkdir(parents=True, exist_ok=True)
        self.objects.fetch(self._key(name), copy)

    def publish(self, partial: Path, name: str) -> None:
        """See `Folder`. The object is written only if it is as it was before this process saw that the lock is its own.

        So a process that was stopped for long, and whose job another one has taken over, overwrites nothing of it.
        """
        assert self._lock, f"{self}: {name} is published without its lock"
        key, digest = self._key(name), provenance.sha256(partial)
        while True:
            before = self.objects.head(key)
            self._lock.require()
            if self.objects.put(key, partial, digest, before):
                break
            now = self.objects.head(key)
            if now and now.digest == digest:  # it was written, and the answer was lost
                break
        if name.startswith(RECORDS):
            self.place(name).parent.mkdir(exist_ok=True)
            os.replace(partial, self.place(name))
        else:
            partial.unlink()

    @contextmanager
    def sole_writer(self) -> Iterator[None]:
        self._lock = self._own_lock()
        try:
            with self._lock.holding():
                yield
        finally:
            self._lock = None

    def _own_lock(self) -> Lock:
        return Lock(self.objects, self._key(LOCK), str(self))

    def has_writer(self) -> bool:
        return self._own_lock().is_held()

    def cancel(self) -> None:
        self.objects.put(self._key(CANCEL), b"", "", None)

    def forget_cancel(self) -> None:
        self.objects.remove(self._key(CANCEL))

    def is_cancelled(self) -> bool:
        if not self._cancelled and time.monotonic() - self._looked >= CANCEL_SECONDS:
            self._cancelled = self.has(CANCEL)
            self._looked = time.monotonic()
        return self._cancelled

    def top_names(self) -> set[str]:
        prefix = self._key("")
        keys, folders = self.objects.below(prefix)
        return {key.removeprefix(prefix).rstrip("/") for key in (*keys, *folders)} - {""}

    def contains(self, other: Folder) -> bool:
        mine, others = (f"{key}/".lstrip("/") for key in (self.key, getattr(other, "key", "")))
        return isinstance(other, S3Folder) and other.objects.bucket == self.objects.bucket and others.startswith(mine)

    def jobs(self) -> Iterator[str]:
        pending = [self._key("")]
        if not any(self.objects.below(pending[0])):
            raise InputError(f"{self}: no such folder")
        while pending:
            prefix = pending.pop()
            keys, folders = self.objects.below(prefix)
            if f"{prefix}{RECORD}" in keys:
                yield self.objects.name(prefix.rstrip("/"))
            else:
                pending += folders

    def shown(self, text: str) -> str:
        return text.replace(str(self.path), str(self) if not self._one else str(self).rpartition("/")[0])
