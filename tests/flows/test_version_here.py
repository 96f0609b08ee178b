"""A registered version whose files are here is opened without MLflow, and in no other case than by MLflow's client."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import mlflow
import pytest

import bertline
from pipelines.core.errors import InputError
from pipelines.lifecycle import version_here
from pipelines.tracking import ledger, registry
from tests.support import champion, exported, servers, stores
from tests.support.places import ROOT

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
ASKS = """
import sys, bertline
model = bertline.load("tiny")
print(model.predict("犬"), *sorted({"mlflow", "torch"} & set(sys.modules)))
print(len(model.embed("犬")), "mlflow" in sys.modules)
"""


@pytest.fixture(params=["a file", "a server"])
def version(
    request: pytest.FixtureRequest,
    checkout: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[registry.Version]:
    """Version 1 of `tiny`, exported; the ledger has the digests of its files."""
    with ExitStack() as stack:
        if request.param == "a server":
            server = stack.enter_context(servers.running(stores.server(checkout / "server")))
            monkeypatch.setenv("MLFLOW_TRACKING_URI", server.address)
        registered = champion.registered(checkout, exported.classifier(tmp_path_factory))
        content = registry.content(registered) if request.param == "a file" else {}  # else all files are downloaded
        ledger.append("tiny", ledger.read("tiny"), "rollback", 1, "a test", content=content)
        yield registered
    mlflow.set_tracking_uri(None)


def test_it_is_the_version_and_the_folder_of_the_long_way(
    version: registry.Version, request: pytest.FixtureRequest
) -> None:
    for which in ("champion", "challenger", "1"):
        for runtime in ("", "onnx", "torch"):
            if "server" in request.node.name and which == "champion" and runtime != "onnx":
                assert version_here.read("tiny", which, runtime) is None, "its files are not downloaded yet"
            folder = registry.folder(version, runtime)
            opened = version_here.read("tiny", which, runtime)
            assert opened
            assert opened == (version, folder)
            assert opened[0].tags == registry.version("tiny", 1).tags
    with pytest.raises(InputError, match="no runtime 'tensorrt'"):
        version_here.read("tiny", "1", "tensorrt")
    process = subprocess.run(
        [sys.executable, "-c", ASKS],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    predicted, embedded = process.stdout.splitlines()
    assert predicted == bertline.load(folder).predict("犬"), "neither MLflow nor torch is imported"
    width = bertline.load(registry.folder(version, "torch")).embed("犬").size
    assert embedded == f"{width} False", "nor is MLflow for a vector"


@pytest.mark.parametrize("version", ["a file"], indirect=True)
def test_files_that_changed_since_the_promotion_are_not_opened(version: registry.Version) -> None:
    (registry.folder(version) / "task.json").write_text("{}")
    sentences = []
    for opens in (lambda: version_here.read("tiny", "1"), lambda: registry.folder(version)):
        with pytest.raises(InputError, match="its onnx changed since promotion") as refused:
            opens()
        sentences.append(str(refused.value))
    assert sentences[0] == sentences[1]


@pytest.mark.parametrize("version", ["a file"], indirect=True)
def test_a_description_that_leads_elsewhere_is_refused(version: registry.Version) -> None:
    described = registry.folder(version).parents[1] / "MLmodel"
    described.write_text(described.read_text().replace("path: artifacts/onnx", "path: ../../../../etc"))
    with pytest.raises(InputError):
        version_here.read("tiny", "1")
    described.write_text("flavors: [")
    with pytest.raises(InputError, match="it does not describe a model"):
        version_here.read("tiny", "1")
