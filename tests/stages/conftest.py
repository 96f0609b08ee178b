"""What the tests of stages share: a checkout in which the graph has run."""

import shutil
from pathlib import Path

import pytest

from tests.support import small_graph
from tests.support.small_graph import Made


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Made:
    """The graph runs once for all tests."""
    return small_graph.made(tmp_path_factory)


@pytest.fixture
def repository(finished: Made, checkout: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of what the graph left."""
    place = checkout / "repository"
    shutil.copytree(finished.place, place, symlinks=True, ignore=shutil.ignore_patterns("tmp"))
    monkeypatch.chdir(place)
    return place
