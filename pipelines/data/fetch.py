"""Fetch the files of corpora from the official address, a mirror or the checkout, and check them before use."""

import http.client
import os
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import lru_cache
from http import HTTPStatus
from pathlib import Path
from typing import BinaryIO

from pipelines.core import locks, provenance
from pipelines.core.errors import InputError
from pipelines.core.progress import progress, say
from pipelines.data.sources import Source

RETRIES = 4
PARALLEL = 4  # files at a time
PIECE = 1 << 20  # bytes read at a time
MANIFEST = "MANIFEST.sha256"  # a mirror's own digests, in the form of sha256sum


def fetch_all(sources: Iterable[Source], folder: Path) -> list[Path]:
    """Fetch and check `sources` into `folder`, several at a time; valid files that exist already are kept."""
    folder.mkdir(parents=True, exist_ok=True)
    # two entries may take files of one corpus
    with locks.wait_for_folder(folder), ThreadPoolExecutor(PARALLEL) as pool:
        sources = list(sources)
        fetched = list(pool.map(lambda source: fetch(source, folder), sources))
    for sentence in filter(None, (source.unchecked() for source in sources)):
        say(sentence)
    return [file for files in fetched for file in files]


def fetch(source: Source, folder: Path) -> list[Path]:
    """Fetch and check one file into `folder`, or the members of an archive if a mirror holds them instead."""
    target = folder / source.name
    if target.is_file() and _complaint(target, source) is None:
        return [target]
    place = _place(source)
    if source.members and place.mirrored and not _exists(place.address):
        parts = [
            replace(source, name=name, mirror=mirror, members={}, sha256=None, size_bytes=None, repacked=False)
            for name, mirror in source.members.items()
        ]
        return [file for part in parts for file in fetch(part, folder)]
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f".{source.name}.partial"
    if "://" in place.address:
        _download(place.address, partial, source)
    elif Path(place.address).is_file():
        shutil.copyfile(place.address, partial)
    else:
        raise InputError(f"{place.address}: no such file; {source.name} is expected there")
    declared = replace(source, sha256=None, size_bytes=None) if source.repacked and place.mirrored else source
    complaint = _complaint(partial, declared) or _listed(partial, source, place)
    if complaint:
        partial.unlink()
        raise InputError(f"{place.address}: {complaint}")
    os.replace(partial, target)
    return [target]


@dataclass(frozen=True)
class _Place:
    address: str  # a path, or a URL
    mirrored: str = ""  # root of the mirror; "" if the place is not in a mirror


def _place(source: Source) -> _Place:
    """The place to read `source` from: the checkout, the mirror if there is one, or the official address."""
    if source.path:
        return _Place(source.path)
    mirror = os.environ.get("BERTLINE_MIRROR", "").rstrip("/")
    if mirror.startswith("file://"):
        mirror = urllib.request.url2pathname(urllib.parse.urlparse(mirror).path)
    below = source.mirror or source.name
    if mirror:
        return _Place(f"{mirror}/{below}", mirror)
    if os.environ.get("BERTLINE_OFFLINE") or not source.url:
        why = "BERTLINE_OFFLINE is set" if source.url else "it has no official address"
        published = f" (it is published at {source.url})" if source.url else ""
        raise InputError(
            f"{source.name} is missing and {why}; put it at {below} in the folder that BERTLINE_MIRROR names{published}"
        )
    return _Place(source.url)


def _complaint(path: Path, source: Source) -> str | None:
    """A sentence about the file's wrong size or digest, or None if nothing is wrong."""
    size = path.stat().st_size
    if source.size_bytes is not None and size != source.size_bytes:
        return f"{source.name} has {size:,} bytes, {source.size_bytes:,} are declared"
    begins = source.sha256 or source.sha256_begins
    if begins and not (digest := provenance.sha256(path)).startswith(begins):
        return f"{source.name} has sha256 {digest}, {begins}{'' if source.sha256 else '...'} is declared"
    return None


def _listed(path: Path, source: Source, place: _Place) -> str | None:
    """A sentence about a mirrored file whose digest differs from the mirror's manifest; None if it does not differ."""
    listed = _manifest(place.mirrored).get(source.mirror or source.name) if place.mirrored else None
    if listed and (digest := provenance.sha256(path)) != listed:
        return f"{source.name} has sha256 {digest}, the mirror's {MANIFEST} says {listed}"
    return None


@lru_cache(maxsize=4)
def _manifest(mirror: str) -> dict[str, str]:
    """Paths below the mirror to their sha256; empty if it has no manifest."""
    try:
        if "://" in mirror:
            with urllib.request.urlopen(f"{mirror}/{MANIFEST}", timeout=60) as answer:
                text = answer.read().decode("utf-8")
        else:
            text = Path(mirror, MANIFEST).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.split(maxsplit=1) for line in text.splitlines() if line.strip())
    return {path.removeprefix("*").removeprefix("./"): digest for digest, path in pairs}


def _exists(address: str) -> bool:
    if "://" not in address:
        return Path(address).is_file()
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method="HEAD"), timeout=60):
            return True
    except urllib.error.HTTPError as error:
        return error.code != 404
    except OSError:
        return True  # the download itself retries, and reports the error


def _download(url: str, partial: Path, source: Source) -> None:
    """Download to `partial`, continuing where an earlier try stopped."""
    for attempt in range(RETRIES + 1):
        try:
            _transfer(url, partial, source)
            return
        except (urllib.error.URLError, OSError, http.client.HTTPException) as error:
            code = error.code if isinstance(error, urllib.error.HTTPError) else None
            beyond = code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
            if beyond:  # an earlier try has left all bytes, or others
                partial.unlink(missing_ok=True)
            final = code is not None and code < 500 and not beyond
            if final or attempt == RETRIES:
                reason = getattr(error, "reason", None) or error
                raise InputError(
                    f"{url}: could not be fetched ({reason}); to use a copy, name a folder that holds "
                    f"{source.mirror or source.name} in BERTLINE_MIRROR"
                ) from None
            time.sleep(min(2**attempt, 10) * float(os.environ.get("BERTLINE_BACKOFF", 1)))


def _transfer(url: str, partial: Path, source: Source) -> None:
    have = partial.stat().st_size if partial.exists() else 0
    if source.size_bytes is not None and have >= source.size_bytes:
        partial.unlink()  # already complete, or wrong: start again
        have = 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        resumed = answer.status == 206
        length = int(answer.headers.get("Content-Length") or 0)
        with partial.open("ab" if resumed else "wb") as out:
            written = _copy(answer, out, source.name, have if resumed else 0, length)
    if length and written < length:
        raise OSError(f"cut off after {written:,} of {length:,} bytes")


def _copy(answer: BinaryIO, out: BinaryIO, name: str, have: int, length: int) -> int:
    """Copy the answer's bytes and show progress; returns the number of bytes."""
    came = 0
    with progress(f"fetching {name}", (have + length) / 1e6, "MB", have / 1e6) as advance:
        while piece := answer.read(PIECE):
            out.write(piece)
            came += len(piece)
            advance((have + came) / 1e6)
    return came
