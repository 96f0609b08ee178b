"""The versions that a service has refused, so that it neither opens them again and again nor flaps between two."""

import math
import time
from pathlib import Path
from typing import NamedTuple

from pipelines.serving.certification import RefusedError
from pipelines.tracking.registry import Version

AGAIN_SECONDS = 600.0  # until a version is tried again that was too slow, or too large for the free memory

Signature = tuple[tuple[str, int, int], ...]


class RefusedVersion(NamedTuple):
    """A version that has the alias of a served model, and gets no request; and the reason in a sentence."""

    version: int
    reason: str


class Refusal(NamedTuple):
    digest: str  # of the version's files
    folder: Path
    signature: Signature  # of `folder`; it is cheaper to read than the digest
    reason: str
    until: float  # on the monotonic clock


class RefusedVersions:
    """Refusals by version and runtime. A refusal ends when the files of its version change."""

    def __init__(self) -> None:
        self._refusals: dict[tuple[Version, str], Refusal] = {}  # replaced as a whole, as two threads use it

    def add(self, version: Version, runtime: str, folder: Path, digest: str, error: RefusedError) -> None:
        until = math.inf if error.lasting else time.monotonic() + AGAIN_SECONDS
        refusal = Refusal(digest, folder, signature(folder), str(error), until)
        self._refusals = self._refusals | {(version, runtime): refusal}

    def forget(self, version: Version) -> None:
        """Forget that this version was refused, so that it is tried again; others stay refused."""
        self._refusals = {key: refusal for key, refusal in self._refusals.items() if key[0] != version}

    def require_new(self, version: Version, runtime: str) -> None:
        """Raise RefusedError if this version was refused before."""
        refusal = self._refusals.get((version, runtime))
        if not refusal:
            return
        if time.monotonic() < refusal.until and signature(refusal.folder) == refusal.signature:
            raise RefusedError(refusal.reason)
        self._refusals = {key: other for key, other in self._refusals.items() if key != (version, runtime)}

    def require_new_files(self, version: Version, runtime: str, digest: str) -> None:
        """Raise RefusedError if the same files were refused as another version."""
        for (other, its_runtime), refusal in self._refusals.items():
            same = (other.name, its_runtime, refusal.digest) == (version.name, runtime, digest)
            if same and time.monotonic() < refusal.until:
                same_files = f"it has the files of version {other.version}, which was refused: {refusal.reason}"
                raise RefusedError(same_files, lasting=math.isinf(refusal.until))


def signature(folder: Path) -> Signature:
    """The names, sizes and times of the files in a folder."""
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return tuple((str(file), (state := file.stat()).st_size, state.st_mtime_ns) for file in files)
