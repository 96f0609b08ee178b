"""The files of registered versions: read in place from a local store, downloaded once and cached from another."""

import contextlib
import hashlib
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import psutil

from pipelines.core import paths, provenance
from pipelines.core.errors import InputError
from pipelines.tracking import store
from pipelines.tracking.registered_version import RUNTIME, Version

HOME = Path("state/registry")
KEPT = 10  # how many versions stay cached: the last used
PARTIAL = "partial-"  # prefix of folders of running downloads; the host and the process id follow
DAY_SECONDS = 86_400  # no download takes this long


def fetch(name: str, number: int, path: str) -> Path:
    """A file or folder of a version, such as `MLmodel` or `artifacts/onnx`, downloaded to the cache if needed.

    Raises InputError if it cannot be read, or if the path, which may come from a file of the version, leads out of it.
    """
    what = f"{name} version {number}: its files cannot be read"
    client = store.connect()
    with store.explained(what):
        uri = client.get_model_version_download_uri(name, str(number))
    version = _folder(uri)
    place = paths.below(version, path)
    if uri.startswith("file:"):
        return _required(place, what)
    if not place.exists():
        import mlflow  # which takes seconds, and is needed for a download alone

        place.parent.mkdir(parents=True, exist_ok=True)
        _remove_what_was_cut_off()
        with tempfile.TemporaryDirectory(dir=HOME, prefix=f"{PARTIAL}{socket.gethostname()}-{os.getpid()}-") as aside:
            with store.explained(what):
                downloaded = mlflow.artifacts.download_artifacts(f"{uri}/{path}", dst_path=aside)
            if not place.exists():  # another process may have downloaded it meanwhile
                os.rename(downloaded, place)
        _forget_others(version)
    os.utime(version)
    return place


def here(uri: str, path: str) -> Path | None:
    """A file or folder of the version whose files are at `uri`; None unless it is on this machine already.

    Raises InputError if the path, which may come from a file of the version, leads out of it.
    """
    version = _folder(uri)
    place = paths.below(version, path)
    if not place.exists():
        return None
    if not uri.startswith("file:"):
        os.utime(version)
    return place


def digest_as_promoted(version: Version, name: str, place: Path, promoted: dict[str, str]) -> str:
    """The digest of an artifact of a version, which is at `place`.

    A user who may register can also rename a model, create another of its name, or overwrite uploaded files.

    Args:
        promoted: the content of the version by the ledger when it became champion; empty if it never was.

    Raises:
        InputError: the artifact has changed since.
    """
    digest = provenance.content_digest(place)
    changed = promoted and promoted.get(name) != digest
    if changed or promoted.get(RUNTIME, version.tags.get(RUNTIME)) != version.tags.get(RUNTIME):
        raise InputError(
            f"{version}: its {name if changed else RUNTIME} changed since promotion: the ledger has another digest. "
            "It is not opened; find out who changed it, and use `bertline rollback` for an earlier version"
        )
    return digest


def _folder(uri: str) -> Path:
    """The folder of a version's files on this machine: that of a local store, or the cache."""
    if uri.startswith("file:"):
        return Path(url2pathname(urlsplit(uri).path))
    return HOME / hashlib.sha256(f"{store.uri()} {uri}".encode()).hexdigest()[:16]


def local(uri: str) -> Path | None:
    """The folder of a version in a store of this machine; None if the store is another."""
    return _folder(uri) if uri.startswith("file:") else None


def forget(uri: str) -> None:
    """Remove what was downloaded of the version whose files are at `uri`."""
    if not local(uri):
        shutil.rmtree(_folder(uri), ignore_errors=True)


def _required(place: Path, what: str) -> Path:
    if not place.exists():
        raise InputError(f"{what} at {store.shown()}: {place}: no such file")
    return place


def _remove_what_was_cut_off() -> None:
    """Remove the downloads of killed processes: the process does not run here any more, or the download is old."""
    for folder in HOME.glob(f"{PARTIAL}*"):
        host, _, pid = folder.name.removeprefix(PARTIAL).rpartition("-")[0].rpartition("-")
        with contextlib.suppress(FileNotFoundError):  # another process removes it too
            old = time.time() - folder.stat().st_mtime > DAY_SECONDS
            if old or (host == socket.gethostname() and not _runs(pid)):
                shutil.rmtree(folder, ignore_errors=True)


def _runs(pid: str) -> bool:
    return pid.isdecimal() and psutil.pid_exists(int(pid))


def _forget_others(version: Path) -> None:
    """Keep the KEPT last used versions, and remove the others. Processes that have their files open still read them."""
    others = [folder for folder in HOME.iterdir() if folder != version and not folder.name.startswith(PARTIAL)]
    for folder in sorted(others, key=lambda folder: folder.stat().st_mtime_ns, reverse=True)[KEPT - 1 :]:
        shutil.rmtree(folder, ignore_errors=True)
