"""Files of declared corpora: from the official address, a mirror or the checkout, and checked before they have a name."""

import os
import shutil
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from pipelines.core import provenance
from pipelines.core.errors import InputError
from pipelines.core.progress import progress

RETRIES = 4
PIECE = 1 << 20  # bytes read at a time


@dataclass(frozen=True)
class Source:
    """One file of a corpus: where it is, what it must be, and under which licence it may be used."""

    name: str  # the file's name below artifacts/raw/<entry>
    url: str = ""  # official address; "" where only a mirror can have it
    path: str = ""  # or a file of this checkout
    mirror: str = ""  # its place below BERTLINE_MIRROR
    size_bytes: int | None = None
    sha256: str | None = None
    repacked: bool = False  # a mirror may hold the same content in another archive; the corpus checks the content
    licence: str = ""


def fetch(source: Source, folder: Path) -> Path:
    """The checked file in `folder`; nothing is fetched again that is there and right."""
    target = folder / source.name
    if target.is_file() and _complaint(target, source) is None:
        return target
    folder.mkdir(parents=True, exist_ok=True)
    place, official = _place(source)
    partial = folder / f".{source.name}.partial"
    if "://" in place:
        _download(place, partial, source)
    else:
        if not Path(place).is_file():
            raise InputError(f"{place}: no such file; {source.name} is expected there")
        shutil.copyfile(place, partial)
    complaint = None if source.repacked and not official else _complaint(partial, source)
    if complaint:
        partial.unlink()
        raise InputError(f"{place}: {complaint}")
    os.replace(partial, target)
    return target


def _place(source: Source) -> tuple[str, bool]:
    """A path or an address to read from, and whether it is the official one."""
    if source.path:
        return source.path, True
    mirror = os.environ.get("BERTLINE_MIRROR", "").rstrip("/")
    if mirror.startswith("file://"):
        mirror = urllib.request.url2pathname(urllib.parse.urlparse(mirror).path)
    if mirror:
        return f"{mirror}/{source.mirror or source.name}", False
    if os.environ.get("BERTLINE_OFFLINE") or not source.url:
        why = "BERTLINE_OFFLINE is set" if source.url else "it has no official address"
        published = f" (it is published at {source.url})" if source.url else ""
        raise InputError(
            f"{source.name} is missing and {why}; put it at {source.mirror or source.name} below a folder named by "
            f"BERTLINE_MIRROR{published}"
        )
    return source.url, True


def _complaint(path: Path, source: Source) -> str | None:
    """What is wrong with the file's size or digest, or None."""
    size = path.stat().st_size
    if source.size_bytes is not None and size != source.size_bytes:
        return f"{source.name} has {size:,} bytes, {source.size_bytes:,} are declared"
    if source.sha256 and (found := provenance.sha256(path)) != source.sha256:
        return f"{source.name} has sha256 {found}, {source.sha256} is declared"
    return None


def _download(url: str, partial: Path, source: Source) -> None:
    """Download to `partial`, going on where an earlier try was cut off."""
    for attempt in range(RETRIES + 1):
        try:
            _transfer(url, partial, source)
            return
        except (urllib.error.URLError, OSError) as error:
            final = isinstance(error, urllib.error.HTTPError) and error.code < 500
            if final or attempt == RETRIES:
                reason = getattr(error, "reason", None) or error
                raise InputError(
                    f"{url}: not to be had ({reason}); BERTLINE_MIRROR may name a folder that holds "
                    f"{source.mirror or source.name}"
                ) from None
            time.sleep(min(2**attempt, 10) * float(os.environ.get("BERTLINE_BACKOFF", 1)))


def _transfer(url: str, partial: Path, source: Source) -> None:
    have = partial.stat().st_size if partial.exists() else 0
    if source.size_bytes is not None and have >= source.size_bytes:
        partial.unlink()  # whole already, or not what it should be: begin again
        have = 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={have}-"} if have else {})
    with urllib.request.urlopen(request, timeout=60) as answer:
        resumed = answer.status == 206
        left = int(answer.headers.get("Content-Length") or 0)
        with partial.open("ab" if resumed else "wb") as out:
            written = _copy(answer, out, source.name, have if resumed else 0, left)
    if left and written < left:
        raise OSError(f"cut off after {written:,} of {left:,} bytes")


def _copy(answer: BinaryIO, out: BinaryIO, name: str, have: int, left: int) -> int:
    """Copy the answer's bytes with progress; returns how many came."""
    came = 0
    with progress(f"fetching {name}", (have + left) / 1e6, "MB") as advance:
        while piece := answer.read(PIECE):
            out.write(piece)
            came += len(piece)
            advance((have + came) / 1e6)
    return came
