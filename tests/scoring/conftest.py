"""A champion for all tests of a file, and a folder of rows and one for answers for each."""

import os
from collections.abc import Iterator
from pathlib import Path

import mlflow
import pytest

from pipelines.tracking import registry
from tests.conftest import SETTINGS
from tests.support import champion, exported


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """An empty folder, the working folder of all tests of the file, with nothing of this machine's settings."""
    place, before = tmp_path_factory.mktemp("store"), Path.cwd()
    with pytest.MonkeyPatch.context() as patch:
        for name in SETTINGS:
            patch.delenv(name, raising=False)
        os.chdir(place)
        try:
            yield place
        finally:
            os.chdir(before)
            mlflow.set_tracking_uri(None)


@pytest.fixture(scope="module")
def version(home: Path, tmp_path_factory: pytest.TempPathFactory) -> registry.Version:
    """The champion `tiny`, exported, in a store of its own."""
    return champion.registered(home, exported.classifier(tmp_path_factory))


@pytest.fixture
def source(version: registry.Version, tmp_path: Path) -> Path:
    """An empty folder for rows; the test has a champion."""
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """A folder for answers, which is not there yet."""
    return tmp_path / "out"
