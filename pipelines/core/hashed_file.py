"""A file whose bytes are added to a hash while they are read, so that its digest takes no second reading."""

import io
from pathlib import Path
from typing import Any, Protocol

BUFFER_BYTES = 1 << 20


class Hash(Protocol):
    """A hash of hashlib."""

    def update(self, data: memoryview, /) -> None: ...

    def hexdigest(self) -> str: ...


class _HashedFile(io.RawIOBase):
    def __init__(self, path: Path, hashing: Hash) -> None:
        self._file, self._hashing = path.open("rb", buffering=0), hashing

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        view = memoryview(buffer)
        count = self._file.readinto(view)
        self._hashing.update(view[:count])
        return count

    def close(self) -> None:
        self._file.close()
        super().close()


def opened(path: Path, hashing: Hash) -> io.BufferedReader:
    """The file at `path`; once it is read to its end, in order, `hashing` is that of all its bytes."""
    return io.BufferedReader(_HashedFile(path, hashing), BUFFER_BYTES)


def read(path: Path, hashing: Hash) -> None:
    """Add all bytes of the file at `path` to `hashing`."""
    with opened(path, hashing) as file:
        while file.read(BUFFER_BYTES):
            pass
