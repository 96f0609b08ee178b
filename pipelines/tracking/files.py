"""The files of registered versions: where they lie if the store is in a folder here, else fetched once and kept."""

import hashlib
import os
import shutil
import tempfile
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import url2pathname

import mlflow

from pipelines.core.errors import InputError
from pipelines.tracking import store

HOME = Path("state/registry")
KEPT = 10  # versions; those that were asked for last


def fetch(name: str, number: int, path: str) -> Path:
    """A file or a folder of a version, such as `MLmodel` or `artifacts/onnx`. A version never changes."""
    what = f"{name} version {number}: its files cannot be read"
    client = store.connect()
    with store.explained(what):
        uri = client.get_model_version_download_uri(name, str(number))
    if uri.startswith("file:"):
        return _required(Path(url2pathname(urlsplit(uri).path)) / path, what)
    version = HOME / hashlib.sha256(f"{store.uri()} {uri}".encode()).hexdigest()[:16]
    place = version / path
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=HOME, prefix="partial-") as aside:
            with store.explained(what):
                found = mlflow.artifacts.download_artifacts(f"{uri}/{path}", dst_path=aside)
            if not place.exists():  # another process may have been as quick
                os.rename(found, place)
        _forget_others(version)
    os.utime(version)
    return place


def _required(place: Path, what: str) -> Path:
    if not place.exists():
        raise InputError(f"{what} at {store.shown()}: {place}: no such file")
    return place


def _forget_others(version: Path) -> None:
    """Remove the versions that were not asked for for the longest time. Whoever has their files open keeps them."""
    others = [each for each in HOME.iterdir() if each != version and not each.name.startswith("partial-")]
    for each in sorted(others, key=lambda folder: folder.stat().st_mtime_ns, reverse=True)[KEPT - 1 :]:
        shutil.rmtree(each, ignore_errors=True)
