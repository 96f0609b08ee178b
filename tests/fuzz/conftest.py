"""The whole inputs, made once for a module."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import seeds


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("meanings")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        seeds.make()
    return folder


@pytest.fixture
def place(made: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(made)
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    yield made
    for folder in ("artifacts", "mutant"):
        shutil.rmtree(folder, ignore_errors=True)
