"""The whole inputs, made once."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.fuzz import seeds
from tests.support import once


@pytest.fixture(scope="session")
def seeds_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            seeds.make()

    return once.copied(once.made(tmp_path_factory, "seeds", make), tmp_path_factory.mktemp("meanings"))


@pytest.fixture
def place(seeds_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(seeds_folder)
    monkeypatch.delenv("BERTLINE_QUIET", raising=False)
    yield seeds_folder
    for folder in ("artifacts", "mutant"):
        shutil.rmtree(folder, ignore_errors=True)
