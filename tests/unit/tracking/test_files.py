"""Files of versions that are fetched from a store elsewhere: what a killed download leaves does not stay."""

import os
import socket
import subprocess
import time
from pathlib import Path
from types import SimpleNamespace

import mlflow
import pytest

from pipelines.tracking import files, store


def download(uri: str, dst_path: str) -> str:
    place = Path(dst_path) / uri.rsplit("/", 1)[1]
    place.write_text(uri)
    return str(place)


@pytest.mark.usefixtures("checkout")
def test_a_download_removes_what_killed_ones_left(monkeypatch: pytest.MonkeyPatch) -> None:
    client = SimpleNamespace(get_model_version_download_uri=lambda name, number: f"s3://store/{name}/{number}")
    monkeypatch.setattr(store, "connect", lambda: client)
    monkeypatch.setattr(mlflow.artifacts, "download_artifacts", download)
    here, ended = socket.gethostname(), subprocess.Popen(["true"])
    ended.wait()
    leftovers = {
        f"partial-{here}-{ended.pid}-a1": False,
        f"partial-{here}-{os.getpid()}-a2": True,
        f"partial-{here}-{os.getpid()}-a3": False,  # the process has the number of one that was killed long ago
        "partial-an-other-host-1-a4": True,
        "partial-a5": False,  # of a version of before, which named no process
    }
    for name in leftovers:
        (files.HOME / name).mkdir(parents=True)
        (files.HOME / name / "model.onnx").write_text("half")
    long_ago = time.time() - 2 * files.DAY_SECONDS
    for name in ("a3", "a5"):
        os.utime(next(files.HOME.glob(f"*{name}")), (long_ago, long_ago))
    assert files.fetch("m", 1, "MLmodel").read_text() == "s3://store/m/1/MLmodel"
    assert {name: (files.HOME / name).exists() for name in leftovers} == leftovers
