"""Folders that take seconds to make: made once in a run of the tests, by the first process that needs them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from filelock import FileLock


def made(places: pytest.TempPathFactory, name: str, make: Callable[[Path], object]) -> Path:
    """The folder that `make` fills. All tests share it; a test that writes must take a copy."""
    base = places.getbasetemp()
    # each process of pytest-xdist has its own folder below that of the run
    root = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = root / f"once-{name}"
    with FileLock(root / f".once-{name}.lock"):
        if not folder.exists():
            partial = root / f".once-{name}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir()
            make(partial)
            partial.rename(folder)
    return folder


def copied(source: Path, target: Path) -> Path:
    """A copy of a shared folder, to write into."""
    return Path(shutil.copytree(source, target, symlinks=True, dirs_exist_ok=True))
